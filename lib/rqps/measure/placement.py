"""Chooses the CPUs for server, load generator and observer, pins the processes to these CPUs, and verifies that they
are pinned.

psutil sets the CPU affinity of one thread; rqps pins every thread of a process. With `by-connection` the load
generator itself places its clients and the threads that serve them, within the CPUs chosen here.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from rqps.errors import RqpsError
from rqps.measure.counters import ended, thread_ids
from rqps.measure.machine import parse_cpu_list, text
from rqps.store.manifest import Placement
from rqps.study import PlacementKind

BY_CONNECTION = "by-connection"
SYSTEM = Path("/sys/devices/system/cpu")
CPUS_TO_SPLIT = 4
"""Minimum number of CPUs at which the default placement is `split`: with fewer CPUs, server and load generator would
wait for each other. A study can ask for `split` with two CPUs or more."""


def choose(
    kind: PlacementKind | None, threads: int, cpus: Iterable[int] | None = None, connections: bool = False
) -> Placement:
    """Places the processes of a step that has `threads` client threads. If `kind` is None, the numbers of CPUs and
    threads decide the kind.

    `cpus` are the CPUs to choose from, by default all on which this process may run. `connections` is true for a load
    generator that can place each of its connections.

    >>> choose("split", 4, cpus=[0]).kind
    Traceback (most recent call last):
    ...
    rqps.errors.RqpsError: placement split: needs 2 CPUs at least, there is only CPU 0
      what to do: use placement same-cpu or free, or allow this process more CPUs
    """
    usable = tuple(sorted(os.sched_getaffinity(0) if cpus is None else cpus))
    if kind is None:
        undivided: PlacementKind = "by-connection" if connections else "free"
        of_several: PlacementKind = "split" if len(usable) >= CPUS_TO_SPLIT else undivided
        kind = "free" if len(usable) == 1 else "same-cpu" if threads == 1 else of_several
    if kind == BY_CONNECTION and not connections:
        raise RqpsError(
            f"placement {kind}: this load generator can't place its connections; sysbench can, and point lookups "
            "in a duet",
            fix="use another placement, or leave out `placement`",
        )
    if kind in ("free", BY_CONNECTION):
        return Placement(kind=kind, server_cpus=usable, client_cpus=usable, observer_cpus=usable)
    if kind == "split":
        return _split(usable)
    shared = usable[-1]  # the last CPU, since the first CPU serves most interrupts
    other_cores = tuple(sorted(cpu for core in cores(usable) if shared not in core for cpu in core))
    observer = other_cores or usable[:-1] or usable
    return Placement(kind=kind, server_cpus=(shared,), client_cpus=(shared,), observer_cpus=observer)


def _split(usable: tuple[int, ...]) -> Placement:
    """Gives the load generator about a quarter of the CPUs, in complete cores if there are at least two cores. The
    observer, which reads counters, shares the generator's CPUs."""
    if len(usable) < 2:
        raise RqpsError(
            f"placement split: needs 2 CPUs at least, there is only CPU {usable[0]}",
            fix="use placement same-cpu or free, or allow this process more CPUs",
        )
    units = cores(usable)
    if len(units) == 1:
        units = [(cpu,) for cpu in usable]
    for_client = max(1, round(len(units) / 4))
    server, client = (tuple(sorted(sum(part, ()))) for part in (units[:-for_client], units[-for_client:]))
    return Placement(kind="split", server_cpus=server, client_cpus=client, observer_cpus=client)


def by_clients(kind: PlacementKind | None, clients: Iterable[int], connections: bool = False) -> dict[int, Placement]:
    """Maps each number of clients to its placement: steps with different numbers of clients may need different
    placements."""
    return {number: choose(kind, number, connections=connections) for number in dict.fromkeys(clients)}


def of_run(placements: Mapping[int, Placement]) -> Placement:
    """The placement of a whole run: if the placements of its steps differ, all CPUs that any step uses."""
    first, *others = placements.values()
    if all(other == first for other in others):
        return first
    used = {
        name: tuple(sorted({cpu for placement in placements.values() for cpu in getattr(placement, name)}))
        for name in ("server_cpus", "client_cpus", "observer_cpus")
    }
    return Placement(kind="by-clients", **used)


def reasons(kind: PlacementKind | None, placements: Mapping[int, Placement]) -> str:
    """One sentence for each different placement, with its CPUs and the reason for it. `kind` is the kind of
    placement that the study asks for; None if it asks for none.

    >>> shared = choose(None, 1, cpus=[0, 1])
    >>> reasons(None, {1: shared, 2: shared})
    'Server and load generator share CPU 1, since with 1 client they take turns.'
    """
    sentences: dict[Placement, str] = {}
    for number, placement in placements.items():
        server, client = cpu_list(placement.server_cpus), cpu_list(placement.client_cpus)
        clients = "1 client" if number == 1 else f"{number} clients"
        where, why = {
            "same-cpu": (f"Server and load generator share {server}", f"with {clients} they take turns"),
            BY_CONNECTION: (
                f"Each client shares one of {server} with the thread that serves it",
                f"{clients} are too many to take turns on one CPU, and these are too few to divide",
            ),
            "split": (f"The server has {server} and the load generator {client}", f"with {clients} both are busy"),
            "free": (
                f"Server and load generator run on {server} as the kernel likes",
                f"this is too little to divide for {clients}",
            ),
        }[placement.kind]
        sentences.setdefault(placement, f"{where}, since {'the study asks for it' if kind else why}.")
    return " ".join(sentences.values())


def apply(pid: int, cpus: Collection[int]) -> None:
    """Pins a process with all its threads to these CPUs."""
    done: set[int] = set()
    while new := _threads(pid) - done:  # a thread that is not pinned yet can start another thread
        for thread in new:
            try:
                os.sched_setaffinity(thread, cpus)
            except ProcessLookupError:
                pass  # this thread has ended
            except OSError as error:
                raise RqpsError(
                    f"process {pid}: can't be pinned to {cpu_list(cpus)}: {error.strerror}",
                    fix=f"use only what this process may use: {cpu_list(os.sched_getaffinity(0))}",
                ) from error
        done |= new


def verify(pid: int, cpus: Collection[int], within: bool = False) -> None:
    """Reads back the CPUs of every thread of a process and checks that they are exactly `cpus`, or, with `within`,
    some or all of `cpus`."""
    for thread in _threads(pid):
        try:
            actual = os.sched_getaffinity(thread)
        except ProcessLookupError:
            continue
        if actual != set(cpus) and not (within and actual < set(cpus)):
            raise RqpsError(
                f"process {pid}, thread {thread}: asked for {cpu_list(cpus)}, but runs on {cpu_list(actual)}",
                fix="look for what else sets CPU affinity here: a cpuset, numactl, an option of the server",
            )


def cpu_list(cpus: Collection[int]) -> str:
    """Names CPUs in words.

    >>> cpu_list([3]), cpu_list([0, 1, 2, 5])
    ('CPU 3', 'CPUs 0-2,5')
    """
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if not runs or runs[-1][-1] != cpu - 1:
            runs.append([])
        runs[-1].append(cpu)
    numbers = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{'CPU' if len(cpus) == 1 else 'CPUs'} {numbers}"


def cores(cpus: Iterable[int]) -> list[tuple[int, ...]]:
    """Groups CPUs that are hardware threads of the same core, in the order of each core's first CPU."""
    wanted = set(cpus)
    siblings = {cpu: text(SYSTEM / f"cpu{cpu}/topology/thread_siblings_list") or "" for cpu in wanted}
    return sorted({tuple(sorted({cpu} | parse_cpu_list(threads) & wanted)) for cpu, threads in siblings.items()})


def _threads(pid: int) -> set[int]:
    try:
        return set(thread_ids(pid))
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ended(pid) from error
