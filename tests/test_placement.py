"""CPUs of server, load generator and observer: chosen for the host, set, and read back."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from child import Child, waiting_threads
from hypothesis import given
from hypothesis import strategies as st
from rqps.errors import RqpsError
from rqps.measure import placement
from rqps.measure.machine import parse_cpu_list
from rqps.study import PlacementKind

CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def threaded() -> Iterator[Child]:
    """A process with five threads that wait."""
    with Child(waiting_threads(4)) as process:
        yield process


def machine(folder: Path, siblings: list[str]) -> Path:
    """A /sys/devices/system/cpu whose CPUs have these thread siblings."""
    for cpu, text in enumerate(siblings):
        topology = folder / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
    return folder


@pytest.mark.parametrize(
    ("kind", "threads", "cpus", "placed", "reason"),
    [
        (None, 1, 2, ((1,), (1,), (0,)), "share CPU 1, since with 1 client they take turns."),
        (None, 4, 4, ((0, 1, 2), (3,), (3,)), "CPUs 0-2 and the load generator CPU 3, since with 4 clients both are"),
        ("same-cpu", 4, 4, ((3,), (3,), (0, 1, 2)), "share CPU 3, since the study asks for it."),
        ("same-cpu", 1, 1, ((0,), (0,), (0,)), "share CPU 0, since the study asks for it."),
    ],
)
def test_the_choice_is_explained(
    kind: PlacementKind | None, threads: int, cpus: int, placed: tuple[tuple[int, ...], ...], reason: str
) -> None:
    chosen = placement.choose(kind, threads, range(cpus))
    assert (chosen.server_cpus, chosen.client_cpus, chosen.observer_cpus) == placed
    assert reason in placement.reasons(kind, {threads: chosen})


@pytest.mark.parametrize(
    ("threads", "cpus", "kind"),
    [(1, 1, "free"), (1, 2, "same-cpu"), (1, 64, "same-cpu"), (2, 1, "free"), (2, 3, "free"), (2, 4, "split")],
)
def test_the_kind_suits_threads_and_host(threads: int, cpus: int, kind: str) -> None:
    assert placement.choose(None, threads, range(cpus)).kind == kind


@pytest.mark.parametrize(("threads", "cpus", "kind"), [(1, 2, "same-cpu"), (2, 1, "free"), (2, 4, "split")])
def test_connections_are_placed_where_cpus_can_not_be_divided(threads: int, cpus: int, kind: str) -> None:
    assert placement.choose(None, threads, range(cpus), connections=True).kind == kind
    by_connection = placement.choose(None, 4, range(3), connections=True)
    assert by_connection == placement.choose("by-connection", 4, range(3), connections=True)
    assert (by_connection.server_cpus, by_connection.client_cpus) == ((0, 1, 2), (0, 1, 2))
    reason = "since 4 clients are too many to take turns on one CPU, and these are too few to divide."
    text = placement.reasons(None, {4: by_connection})
    assert text == f"Each client shares one of CPUs 0-2 with the thread that serves it, {reason}"


def test_a_load_that_can_not_place_its_connections_is_refused_where_the_study_asks_for_it() -> None:
    with pytest.raises(RqpsError, match="placement by-connection: this load generator can't place its connections"):
        placement.choose("by-connection", 4, range(2))


def test_whole_cores_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = machine(tmp_path, ["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"])
    monkeypatch.setattr(placement, "SYSTEM", system)
    assert placement.cores(range(8)) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert placement.cores([0, 1, 4]) == [(0, 4), (1,)]
    split = placement.choose(None, 8, range(8))
    assert (split.server_cpus, split.client_cpus, split.observer_cpus) == ((0, 1, 2, 4, 5, 6), (3, 7), (3, 7))
    same = placement.choose(None, 1, range(8))
    assert (same.server_cpus, same.observer_cpus) == ((7,), (0, 1, 2, 4, 5, 6))


def test_two_threads_of_one_core_can_still_be_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "SYSTEM", machine(tmp_path, ["0-1", "0-1"]))
    split = placement.choose("split", 2, range(2))
    assert (split.server_cpus, split.client_cpus) == ((0,), (1,))


@given(cpus=st.sets(st.integers(0, 300), min_size=2), threads=st.integers(1, 64))
def test_split_uses_every_cpu_once_and_gives_the_server_no_less(cpus: set[int], threads: int) -> None:
    split = placement.choose("split", threads, cpus)
    assert set(split.server_cpus) | set(split.client_cpus) == cpus
    assert not set(split.server_cpus) & set(split.client_cpus)
    assert len(split.server_cpus) >= len(split.client_cpus) >= 1


@given(cpus=st.sets(st.integers(0, 300), min_size=1))
def test_a_list_of_cpus_in_words_reads_back(cpus: set[int]) -> None:
    assert parse_cpu_list(placement.cpu_list(cpus).split()[1]) == cpus


def test_every_thread_is_pinned_and_read_back(threaded: Child) -> None:
    placement.apply(threaded.pid, CPUS[-1:])
    placement.verify(threaded.pid, CPUS[-1:])
    threads = [int(entry.name) for entry in Path(f"/proc/{threaded.pid}/task").iterdir()]
    assert len(threads) == 5
    assert {frozenset(os.sched_getaffinity(thread)) for thread in threads} == {frozenset(CPUS[-1:])}


def test_one_thread_elsewhere_is_found_with_both_values(threaded: Child) -> None:
    if len(CPUS) < 2:
        pytest.fail("this test needs two CPUs")
    placement.apply(threaded.pid, CPUS[-1:])
    thread = max(int(entry.name) for entry in Path(f"/proc/{threaded.pid}/task").iterdir())
    os.sched_setaffinity(thread, CPUS[:1])
    expected = f"thread {thread}: asked for CPU {CPUS[-1]}, but runs on CPU {CPUS[0]}"
    with pytest.raises(RqpsError, match=expected):
        placement.verify(threaded.pid, CPUS[-1:])


def test_threads_may_be_on_fewer_of_the_cpus_where_the_load_places_them(threaded: Child) -> None:
    thread = max(int(entry.name) for entry in Path(f"/proc/{threaded.pid}/task").iterdir())
    os.sched_setaffinity(thread, CPUS[:1])
    placement.verify(threaded.pid, CPUS, within=True)
    with pytest.raises(RqpsError, match=f"thread {thread}: asked for "):
        placement.verify(threaded.pid, CPUS)
    with pytest.raises(RqpsError, match=f"asked for CPU {CPUS[0]}, but runs on"):
        placement.verify(threaded.pid, CPUS[:1], within=True)


def test_a_cpu_that_does_not_exist_is_named(threaded: Child) -> None:
    with pytest.raises(RqpsError, match=r"can't be pinned to CPU 1023: Invalid argument"):
        placement.apply(threaded.pid, [1023])


def test_a_process_that_has_ended_can_not_be_placed() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(RqpsError, match=f"process {process.pid} has ended"):
        placement.verify(process.pid, CPUS)


def test_steps_with_other_numbers_of_clients_may_be_placed_otherwise() -> None:
    shared = placement.choose("same-cpu", 1, cpus=[0, 1])
    free = placement.choose("free", 4, cpus=[0, 1])
    assert placement.of_run({1: shared, 2: shared}) == shared
    assert placement.by_clients("free", [1, 4, 1]) == {1: placement.choose("free", 1), 4: placement.choose("free", 4)}
    complete = placement.of_run({1: shared, 4: free, 32: free})
    assert (complete.kind, complete.server_cpus, complete.client_cpus, complete.observer_cpus) == (
        "by-clients",
        *[(0, 1)] * 3,
    )
    sentences = placement.reasons(None, {1: shared, 4: free, 32: free})
    assert sentences == (
        "Server and load generator share CPU 1, since with 1 client they take turns. Server and load generator run "
        "on CPUs 0-1 as the kernel likes, since this is too little to divide for 4 clients."
    )
