"""What goes on right now: load, other processes, servers left over, and how evenly the CPUs work."""

import os
from collections.abc import Callable, Collection

from rqps.observe.activity import Activity, OurServer, our_servers, watch
from rqps.observe.checks.finding import Finding, Level
from rqps.observe.noise import Noise, measure_noise

WATCH_S = 1.0
SPIN_S = 1.5


def now_findings(say: Callable[[str], None]) -> list[Finding]:
    cpus = os.sched_getaffinity(0)
    say(f"watching other processes for {WATCH_S:g} s")
    others = watch(WATCH_S)
    say(f"spinning on all CPUs and on one, for {SPIN_S:g} s each, to see how evenly they work")
    noise = measure_noise(cpus, SPIN_S)
    (alone,) = measure_noise([max(cpus)], SPIN_S)
    return [
        load(os.getloadavg()[0], len(cpus)),
        other_processes(others),
        servers_of_ours(our_servers()),
        steal(noise),
        noise_floor(noise),
        *alike(noise),
        *shared_core(alone, noise),
    ]


def load(load_1min: float, cpus: int) -> Finding:
    found = f"{load_1min:.2f} over the last minute, on {cpus} CPUs"
    effect = "what else runs takes turns with the server and empties its caches"
    fix = "wait until the machine is quiet, or end what keeps it busy"
    a_cpu = load_1min / cpus
    level: Level = "warn" if a_cpu > 0.5 else "note" if a_cpu > 0.2 else "ok"
    return Finding("load", level, found) if level == "ok" else Finding("load", level, found, effect, fix)


def other_processes(others: Activity) -> Finding:
    found = f"use {others.share:.0%} of a CPU"
    if others.share < 0.1:
        return Finding("other processes", "ok", found)
    named = [f"{busy.name} ({busy.pid}) {busy.share:.0%}" for busy in others.busy[:4]]
    unnamed = others.share - sum(busy.share for busy in others.busy)
    named += [f"some that came and went {unnamed:.0%}"] if unnamed > 0.1 else []
    return Finding(
        "other processes",
        "warn" if others.share > 0.3 else "note",
        f"{found}: {', '.join(named)}" if named else found,
        "they take turns with the server and empty its caches",
        "end them, or measure when they are done",
    )


def servers_of_ours(servers: Collection[OurServer]) -> Finding:
    left = [str(server.pid) for server in servers if not server.kept]
    if left:
        return Finding(
            "servers of ours",
            "warn",
            f"left over, with nobody to stop them: mysqld {', '.join(left)}",
            "they hold memory and wake up now and then",
            f"kill {' '.join(left)}",
        )
    if servers:
        found = f"{len(servers)} running, so something is being measured or set up now"
        return Finding("servers of ours", "note", found, "two at once disturb each other", "wait until it is done")
    return Finding("servers of ours", "ok", "none running")


def steal(noise: Collection[Noise]) -> Finding:
    worst = max(noise, key=lambda each: each.stolen_share)
    if worst.stolen_share < 0.01:
        return Finding("steal", "ok", "under 1 % while all CPUs were in use")
    return Finding(
        "steal",
        "warn" if worst.stolen_share > 0.05 else "note",
        f"{worst.stolen_share:.0%} of CPU {worst.cpu} went to other guests of this hardware",
        "throughput falls when the neighbours are busy; CPU time an operation is steadier",
        "measure at a quieter time, or on a machine of your own",
    )


def noise_floor(noise: Collection[Noise]) -> Finding:
    """The most useful thing to know: how much equal work varies when nothing is measured."""
    worst = max(noise, key=lambda each: max(each.spread, each.lost_share))
    found = (
        f"equal work varies by {worst.spread:.1%} from one tenth of a second to the next on CPU {worst.cpu}; "
        f"{worst.lost_share:.1%} of its time was lost ({worst.waited_share:.1%} to other processes, "
        f"{worst.stolen_share:.1%} to other guests), at most {worst.longest_ms:.1f} ms at once"
    )
    most = max(worst.spread, worst.lost_share)
    level: Level = "warn" if most > 0.05 else "note" if most > 0.02 else "ok"
    if worst.lost_share > 0.25:
        level = "bad"
    if level == "ok":
        return Finding("noise floor", level, found)
    effect = f"a short step moves by some {worst.spread:.0%} for no reason of its own"
    fix = "quieten the machine (see the rest of this list); then longer steps and more rounds average over it"
    return Finding("noise floor", level, found, effect, fix)


def alike(noise: Collection[Noise]) -> list[Finding]:
    """Processors with cores of two kinds are common in laptops."""
    fast = min(noise, key=lambda each: each.piece_us)
    slow = max(noise, key=lambda each: each.piece_us)
    if slow.piece_us < 1.15 * fast.piece_us:
        return []
    return [
        Finding(
            "unlike CPUs",
            "warn",
            f"CPU {slow.cpu} takes {slow.piece_us / fast.piece_us - 1:.0%} longer than CPU {fast.cpu} for equal work",
            "what is measured depends on where the kernel puts the server",
            f"let only CPUs of one kind be used: taskset -c {fast.cpu},… rqps run STUDY",
        )
    ]


def shared_core(alone: Noise, noise: Collection[Noise]) -> list[Finding]:
    """Virtual CPUs are often threads of one core, which the machine does not tell its guest."""
    together = next(each for each in noise if each.cpu == alone.cpu)
    slower = together.piece_us / alone.piece_us - 1
    if len(noise) < 2 or slower < 0.1:
        return []
    return [
        Finding(
            "shared core",
            "warn",
            f"CPU {alone.cpu} takes {slower:.0%} longer for equal work while the others work too",
            "whatever else runs slows the server down, also on a CPU of its own, and no counter shows it",
            "leave the machine alone while it measures; compare CPU per operation only with that in mind",
        )
    ]
