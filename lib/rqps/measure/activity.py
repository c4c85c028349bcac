"""Checks what this machine does right now: its load, other processes, leftover servers, and the noise of its CPUs."""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import psutil

from rqps.engines import facts_of_all
from rqps.finding import Finding
from rqps.measure.counters import cpu_ns, read_host
from rqps.measure.noise import Noise, measure_noise
from rqps.numbers import in_percent, percent, sized
from rqps.scratch import PREFIX

WATCH_S = 1.0
SPIN_S = 1.5
LEAST_SHARE = 0.01
KEEPER = "keeper.py"


class Busy(NamedTuple):
    """A process and its share of one CPU."""

    pid: int
    name: str
    share: float


class Activity(NamedTuple):
    """The CPU use that `watch` found. A share is CPU time divided by elapsed time: 1 is one busy CPU."""

    share: float
    """The CPU use of the whole machine, including this process and processes that started or ended meanwhile."""
    busy: tuple[Busy, ...]
    """Other processes that ran during all of `watch` and used at least LEAST_SHARE of one CPU, busiest first."""


def activity_findings(say: Callable[[str], None]) -> Iterator[Finding]:
    """Yields the findings that need some seconds of observation; `say` announces each observation."""
    cpus = os.sched_getaffinity(0)
    say(f"watching other processes for {WATCH_S:g} s")
    others = watch(WATCH_S)
    say(f"spinning on all CPUs and on one, for {SPIN_S:g} s each, to see how evenly they work")
    noise = measure_noise(cpus, SPIN_S)
    (alone,) = measure_noise([max(cpus)], SPIN_S)
    yield from (load(os.getloadavg()[0], len(cpus)), other_processes(others), servers_of_ours(our_servers()))
    yield from filter(None, (steal(noise), noise_floor(noise), unlike_cpus(noise), shared_core(alone, noise)))


def watch(seconds: float) -> Activity:
    """Measures for `seconds` the CPU time of the machine and of each process except this one."""
    host, before, start_ns = read_host(None), _cpu_by_process(), time.monotonic_ns()
    time.sleep(seconds)
    used, after, elapsed_ns = read_host(None) - host, _cpu_by_process(), time.monotonic_ns() - start_ns
    names = {process.pid: process.info["name"] for process in psutil.process_iter(["name"])}
    pids = before.keys() & after.keys() - {os.getpid()}
    shares = [Busy(pid, names.get(pid, "an ended process"), (after[pid] - before[pid]) / elapsed_ns) for pid in pids]
    busy = sorted(
        (busy_process for busy_process in shares if busy_process.share >= LEAST_SHARE),
        key=lambda busy_process: -busy_process.share,
    )
    all_share = (used.cpu_user_s + used.cpu_system_s) * 1e9 / elapsed_ns
    return Activity(all_share, tuple(busy))


def _cpu_by_process() -> dict[int, int]:
    """Maps each process to its CPU time in ns. psutil's ticks of 10 ms are too coarse for a watch of one second."""
    used_ns = {}
    for pid in psutil.pids():
        with suppress(ProcessLookupError):  # the process has ended
            used_ns[pid] = cpu_ns(pid)
    return used_ns


def our_servers() -> dict[int, bool]:
    """Maps the process id of each server that rqps has started to True if the server's parent is still the keeper,
    the process that stops it. The command lines of these servers name a private folder of rqps."""
    private = re.escape(PREFIX)
    known = [facts.processes.replace("{private}", private) for facts in facts_of_all() if facts.processes]
    ours = re.compile("|".join(known))
    processes = {process.pid: process.info for process in psutil.process_iter(["cmdline", "ppid"])}
    lines = {pid: " ".join(info["cmdline"] or ()) for pid, info in processes.items()}
    servers = [pid for pid, line in lines.items() if ours.search(line) and KEEPER not in line]
    return {pid: KEEPER in lines.get(processes[pid]["ppid"], "") for pid in sorted(servers)}


def load(load_1min: float, cpus: int) -> Finding:
    per_cpu = load_1min / cpus
    return Finding(
        "load",
        "warn" if per_cpu > 0.5 else "note" if per_cpu > 0.2 else "ok",
        f"{sized(load_1min)} over the last minute, on {cpus} CPUs",
        "other programs take turns with the server and empty its caches",
        "wait until the machine is quiet, or end what keeps it busy",
    )


def other_processes(others: Activity) -> Finding:
    named = [f"{busy.name} ({busy.pid}) {percent(busy.share)}" for busy in others.busy[:4]]
    unnamed = others.share - sum(busy.share for busy in others.busy)
    named += [f"short-lived ones {percent(unnamed)}"] if unnamed > 0.1 else []
    return Finding(
        "other processes",
        "warn" if others.share > 0.3 else "note" if others.share >= 0.1 else "ok",
        f"use {percent(others.share)} of a CPU" + (f": {', '.join(named)}" if named and others.share >= 0.1 else ""),
        "they take turns with the server and empty its caches",
        "end them, or measure when they are done",
    )


def servers_of_ours(servers: Mapping[int, bool]) -> Finding:
    if orphans := [str(pid) for pid, has_keeper in servers.items() if not has_keeper]:
        left_over = f"left over, without a keeper to stop them: processes {', '.join(orphans)}"
        fix = f"kill {' '.join(orphans)}"
        return Finding("servers of ours", "warn", left_over, "they hold memory and wake up now and then", fix)
    if servers:
        left_over = f"{len(servers)} running, so something is being measured or set up now"
        return Finding(
            "servers of ours", "note", left_over, "two at once disturb each other", "wait until it is done"
        )
    return Finding("servers of ours", "ok", "none running")


def steal(noise: Collection[Noise]) -> Finding:
    most = max(noise, key=lambda cpu_noise: cpu_noise.stolen_share)
    if most.stolen_share < 0.01:
        return Finding("steal", "ok", "under 1 % while all CPUs were in use")
    return Finding(
        "steal",
        "warn" if most.stolen_share > 0.05 else "note",
        f"{percent(most.stolen_share)} of CPU {most.cpu} went to other guests of this hardware",
        "throughput falls when the neighbours are busy; CPU time per operation is steadier",
        "measure at a quieter time, or on a machine of your own",
    )


def noise_floor(noise: Collection[Noise]) -> Finding:
    """Reports how much the time for equal work varies on the worst CPU, and how much time of this CPU went to other
    processes or guests. This noise of the machine is not yet the noise floor of a study."""
    worst = max(noise, key=lambda cpu_noise: max(cpu_noise.spread, cpu_noise.lost_share))
    most = max(worst.spread, worst.lost_share)
    return Finding(
        "noise floor",
        "bad" if worst.lost_share > 0.25 else "warn" if most > 0.05 else "note" if most > 0.02 else "ok",
        f"equal work varies by {in_percent(worst.spread)} from one tenth of a second to the next on CPU {worst.cpu}; "
        f"{in_percent(worst.lost_share)} of its time was lost ({in_percent(worst.waited_share)} to other processes, "
        f"{in_percent(worst.stolen_share)} to other guests), at most {sized(worst.longest_ms)} ms at once",
        f"the result of a short step varies by some {percent(worst.spread)} by chance",
        "quieten the machine (see the rest of this list); then longer steps and more rounds average over it",
    )


def unlike_cpus(noise: Collection[Noise]) -> Finding | None:
    """Reports CPUs of different speed: many laptops have cores of two kinds."""
    fast, slow = (choose(noise, key=lambda cpu_noise: cpu_noise.piece_us) for choose in (min, max))
    if (slower := slow.piece_us / fast.piece_us - 1) < 0.15:
        return None
    return Finding(
        "unlike CPUs",
        "warn",
        f"CPU {slow.cpu} takes {percent(slower)} longer than CPU {fast.cpu} for equal work",
        "throughput depends on where the kernel puts the server",
        f"let only CPUs of one kind be used: taskset -c {fast.cpu},… rqps run STUDY",
    )


def shared_core(alone: Noise, noise: Collection[Noise]) -> Finding | None:
    """Reports if CPUs share a core: virtual CPUs are often threads of one core, and a guest can't see that."""
    together = next(cpu_noise for cpu_noise in noise if cpu_noise.cpu == alone.cpu)
    slower = together.piece_us / alone.piece_us - 1
    if len(noise) < 2 or slower < 0.1:
        return None
    return Finding(
        "shared core",
        "warn",
        f"CPU {alone.cpu} takes {percent(slower)} longer for equal work while the others work too",
        "other programs slow the server down, also on a CPU of its own, and no counter shows it",
        "leave the machine alone while it measures; compare CPU per operation only with that in mind",
    )
