"""The doctor sees what is really wrong with a machine, says what it does to the numbers, and how to fix it."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from child import SPINNING, Child, until
from rqps import keeper
from rqps.finding import LEVELS, Finding, machine_findings, render, worst
from rqps.measure import doctor
from rqps.measure.activity import (
    Activity,
    Busy,
    load,
    noise_floor,
    other_processes,
    our_servers,
    servers_of_ours,
    shared_core,
    watch,
)
from rqps.measure.counters import read_process
from rqps.measure.doctor import disk_room, examine, file_system, open_files, program_findings, socket_path
from rqps.measure.noise import measure_noise, summarise
from rqps.scratch import PREFIX

CPUS = sorted(os.sched_getaffinity(0))
MS_NS = 1_000_000


@pytest.fixture
def burner() -> Iterator[Child]:
    """A process that keeps the last CPU busy."""
    with Child(SPINNING) as process:
        os.sched_setaffinity(process.pid, CPUS[-1:])
        process.send()
        yield process


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    messages: list[str] = []
    result = examine(tmp_path_factory.mktemp("data"), messages.append)
    assert [line.split()[0] for line in messages] == ["watching", "spinning"], "what takes seconds is announced"
    return result


def test_everything_is_looked_at(findings: list[Finding]) -> None:
    names = [finding.name for finding in findings]
    assert len(names) == len(set(names))
    assert {
        "load", "other processes", "servers of ours", "steal", "noise floor", "CPUs", "virtualisation", "memory",
        "swap", "disk, data", "disk, cache", "file system", "open files", "socket path", "hardware counters",
        "stack sampling", "perf", "user", "sysbench", "mvn", "npm", "apt-get", "git",
    } <= set(names)  # fmt: skip


def test_a_problem_has_an_effect_and_a_fix(findings: list[Finding]) -> None:
    for finding in findings:
        assert finding.observed
        assert finding.level == "ok" or (finding.effect and finding.fix), finding


def test_a_busy_process_is_named_with_its_share(burner: Child) -> None:
    earlier = read_process(burner.pid)
    activity = watch(0.5)
    [busy] = [busy for busy in activity.busy if busy.pid == burner.pid]
    used = read_process(burner.pid) - earlier
    assert used.cpu_s is not None
    assert 0.01 <= busy.share <= 2 * used.cpu_s, "of half a second"
    assert busy.share < activity.share + 0.1, "a tick or two are counted late"
    finding = other_processes(Activity(0.9, (busy._replace(share=0.9),)))
    assert finding.level == "warn"
    assert f"use 90 % of a CPU: {busy.name} ({burner.pid}) 90 %" in finding.observed


def test_processes_too_short_to_be_named_are_counted() -> None:
    with Child(
        "import subprocess\nturn()\nwhile True: subprocess.run(['ls', '-lR', '/usr/share/doc'], stdout=-3)"
    ) as busy:
        busy.send()
        activity = watch(0.5)
    named = sum(one.share for one in activity.busy)
    assert activity.share > 0.1
    finding = other_processes(Activity(named + 0.5, activity.busy))
    assert "short-lived ones 50 %" in finding.observed


@pytest.mark.usefixtures("burner")
def test_the_noise_floor_sees_a_cpu_that_has_to_be_shared() -> None:
    noise = {one.cpu: one for one in measure_noise(CPUS, seconds=1)}
    assert set(noise) == set(CPUS[:8])
    disturbed = noise[CPUS[-1]]
    assert disturbed.waited_share > 0.3, "two spinners of equal weight share a CPU by halves"
    assert disturbed.lost_share > 0.3
    assert noise_floor(noise.values()).level == "bad"


def test_even_work_has_no_noise_and_a_pause_is_measured() -> None:
    even = [piece * MS_NS for piece in range(2001)]
    quiet = summarise(3, even, cpu_ns=2000 * MS_NS, stolen_s=0)
    assert (quiet.cpu, quiet.piece_us, quiet.lost_share, quiet.spread, quiet.longest_ms) == (3, 1000, 0, 0, 0)
    assert noise_floor([quiet]).level == "ok"
    paused = even[:501] + [end + 250 * MS_NS for end in even[501:]]
    noisy = summarise(3, paused, cpu_ns=2000 * MS_NS, stolen_s=0.045)
    assert noisy.lost_share == pytest.approx(1 / 9)
    assert noisy.waited_share == pytest.approx(1 / 9)
    assert noisy.stolen_share == pytest.approx(0.02)
    assert noisy.longest_ms == 250
    assert noise_floor([quiet, noisy]).level == "warn"


def test_a_cpu_that_slows_down_while_the_others_work_shares_a_core() -> None:
    pieces = {ms: [piece * ms * MS_NS for piece in range(1001)] for ms in (10, 16)}
    alone, slowed = (summarise(1, ends_ns, cpu_ns=ends_ns[-1], stolen_s=0) for ends_ns in pieces.values())
    finding = shared_core(alone, [replace(slowed, cpu=0), slowed])
    assert finding is not None
    assert "CPU 1 takes 60 % longer" in finding.observed
    assert shared_core(alone, [replace(alone, cpu=0), alone]) is None
    assert shared_core(alone, [alone]) is None


def test_no_permission_to_profile_names_the_level_that_forbids_it() -> None:
    """A real child, an ordinary one also where we are root."""
    script = """
        import json, os
        from rqps.measure.doctor import stack_sampling
        if os.getuid() == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        turn(json.dumps(stack_sampling()))
    """
    with Child(script) as ordinary_user:
        finding = Finding(*json.loads(ordinary_user.said))
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    assert finding.level == ("warn" if paranoid > 0 else "ok")
    if paranoid > 0:
        assert finding.observed == f"no permission to profile whole CPUs (kernel.perf_event_paranoid is {paranoid})"
        assert "sysctl kernel.perf_event_paranoid" in finding.fix


@pytest.mark.parametrize(
    ("machine", "name", "level"),
    [
        ({"governor": "powersave"}, "governor", "warn"),
        ({"governor": "performance"}, "governor", "ok"),
        ({"turbo": True}, "turbo", "note"),
        ({"smt": True}, "SMT", "note"),
        ({"virtualised": True, "hypervisor": "kvm"}, "virtualisation", "note"),
        ({"clock_source": "hpet"}, "clock source", "warn"),
        ({"address_randomisation": 0}, "address randomisation", "note"),
        ({"cpu_quota_cpus": 1.5}, "CPU quota", "bad"),
        ({"cpus_allowed": 1}, "CPUs", "warn"),
        ({"transparent_huge_pages": "always"}, "huge pages", "note"),
        ({"pages_out_cold_memory": True}, "cold memory", "note"),
        ({"swap_kb": 9 << 20, "swap_used_kb": 1 << 20}, "swap", "warn"),
        ({"memory_kb": 8 << 20, "memory_available_kb": 1 << 20}, "memory", "bad"),
        ({"memory_kb": 8 << 20, "memory_available_kb": 3 << 20}, "memory", "warn"),
    ],
)
def test_each_trait_of_a_machine_has_its_finding(machine: dict[str, object], name: str, level: str) -> None:
    described = {"cpus_allowed": 8, **machine}
    results = {finding.name: finding for finding in machine_findings(described)}
    assert results[name].level == level


def test_a_fact_that_a_machine_does_not_give_has_no_finding() -> None:
    results = [finding.name for finding in machine_findings({"cpus_allowed": 8})]
    assert results == ["CPUs", "virtualisation", "swap"]


def test_missing_programs_are_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path))
    results = {finding.name: finding for finding in program_findings()}
    assert results["sysbench"].level == "bad"
    assert {results[name].level for name in ("mvn", "npm", "apt-get", "git")} == {"note"}
    (tmp_path / "apt-get").touch(mode=0o755)
    assert {finding.name: finding for finding in program_findings()}["sysbench"].level == "ok", "it can be fetched"
    assert "fetched with apt-get when it is needed" in program_findings()[1].observed
    (tree := tmp_path / "debian/sysbench").mkdir(parents=True)
    assert program_findings()[1].observed == f"Debian's, in {tree}"


def test_a_server_of_ours_is_left_over_once_its_keeper_is_gone(tmp_path: Path) -> None:
    """Anything that is called like our mysqld will do."""
    private = tmp_path / f"{PREFIX}abcdefgh"
    private.mkdir()
    argv = [sys.executable, "-c", "import time; time.sleep(60)", f"--socket={private}/mysqld.sock"]
    alone = subprocess.Popen(argv)
    saved = subprocess.Popen(
        keeper.command("guard", argv, cpus=()), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert saved.stdout
    assert saved.stdin
    kept_pid = int(saved.stdout.readline().split()[1])
    try:
        until(lambda: {alone.pid, kept_pid} <= our_servers().keys())  # a keeper gives the id before it starts
        ours = our_servers()
        assert ours[alone.pid] is False
        assert ours[kept_pid] is True
        assert saved.pid not in ours
    finally:
        alone.kill()
        alone.wait()
        saved.stdin.close()
        saved.wait()


def test_the_worst_comes_first_and_nothing_is_lost(findings: list[Finding]) -> None:
    text = render(findings, width=80)
    assert max(len(line) for line in text.splitlines() if " " in line.strip()[12:]) <= 80
    flat = " ".join(text.split())
    for finding in findings:
        for message in finding[2:] if finding.level != "ok" else (finding.name, finding.observed):
            assert " ".join(message.split()) in flat
    heads = [line for line in text.splitlines() if line and not line.startswith(" ")]
    order = ["Fix this", "This makes", "Good to", "Fine"]
    assert [next(i for i, start in enumerate(order) if head.startswith(start)) for head in heads] == sorted(
        i for i, level in enumerate(reversed(LEVELS)) if any(finding.level == level for finding in findings)
    )


FREE_GB = shutil.disk_usage("/tmp").free / 2**30
BUSY = (Busy(1, "init", 0.02),)


@pytest.mark.parametrize(
    ("finding", "level", "text"),
    [
        (load(0.1, cpus=4), "ok", "0.1 over the last minute"),
        (load(1.0, cpus=4), "note", "on 4 CPUs"),
        (load(3.0, cpus=4), "warn", "wait until the machine is quiet"),
        (other_processes(Activity(0.0, ())), "ok", "use 0 % of a CPU"),
        (other_processes(Activity(0.02, BUSY)), "ok", "use 2 % of a CPU"),
        (servers_of_ours({12: True, 34: False}), "warn", "kill 34"),
        (servers_of_ours({12: True}), "note", "1 running"),
        (servers_of_ours({}), "ok", "none running"),
        (disk_room("disk", Path("/tmp"), least_gb=FREE_GB + 9), "bad", "only"),
        (disk_room("disk", Path("/tmp"), least_gb=0, enough_gb=FREE_GB + 9), "warn", "make room"),
        (disk_room("disk", Path("/tmp/not/there/yet"), least_gb=0, enough_gb=0), "ok", "GB free"),
        (file_system(Path("/dev/shm")), "warn", "tmpfs"),
        (open_files(256, 1024), "warn", "1024 at most"),
        (open_files(1024, resource.RLIM_INFINITY), "ok", "no limit"),
        (socket_path(Path("/" + "x" * 100)), "bad", "set TMPDIR"),
        (socket_path(Path("/tmp")), "ok", "in /tmp"),
    ],
)
def test_a_finding_has_the_level_that_it_deserves(finding: Finding, level: str, text: str) -> None:
    assert finding.level == level
    assert text in finding.observed + finding.fix


def test_the_worst_level_decides() -> None:
    assert worst([]) == "ok"
    assert worst([Finding("a", "note", "x"), Finding("b", "warn", "x"), Finding("c", "ok", "x")]) == "warn"


def test_the_folder_for_copies_is_looked_at_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQPS_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setattr(doctor, "file_system", lambda place: Finding("file system", "ok", str(place), "", ""))
    for slow in ("activity_findings", "program_findings"):
        monkeypatch.setattr(doctor, slow, lambda *_: [])
    observed = {finding.name: finding.observed for finding in examine(tmp_path)}
    assert observed["file system"] == str(tmp_path / "scratch")
    assert str(tmp_path / "scratch") in observed["disk, scratch"]
