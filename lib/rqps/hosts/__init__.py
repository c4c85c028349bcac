"""Inspects and prepares other machines over SSH, and measures on them in parallel."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from rqps.engines import Say
from rqps.errors import RqpsError
from rqps.finding import Finding, render, worst
from rqps.hosts.ssh import Looked, connected, explained, look, prepare
from rqps.measure.job import git_revision
from rqps.schedule.budget import Budget
from rqps.schedule.hours import Hours
from rqps.schedule.run_study import run_study, set_aside
from rqps.schedule.state import StudyFolder
from rqps.schedule.watch import POLL_S, Stopped, Watcher
from rqps.study import HostSpec, RunsFile

FAILED = 1
T = TypeVar("T")


def check(hosts: Mapping[str, HostSpec]) -> tuple[str, bool]:
    """Inspects hosts in parallel; returns the findings as text, and True if all hosts can measure."""

    async def look_at(name: str, spec: HostSpec) -> Looked:
        async with connected(spec) as connection:
            return await look(name, spec, connection, thorough=True)

    words: list[str] = []
    before: dict[str, Looked] = {}
    for name, looked in _all_at_once(look_at, hosts).items():
        if isinstance(looked, RqpsError):
            words.append(f"{name}: {looked}")
            continue
        same = [f"is the same machine as {other}" for other, earlier in before.items() if looked.same_as(earlier)]
        what = ("it would measure two things at once", "keep one of them in runs.yaml")
        findings = [*(Finding("machine", "bad", problem, *what) for problem in same), *looked.findings]
        if worst(findings) != "bad":
            before[name] = looked
        ready = "ready" if name in before else "not ready"
        shown = render([*findings, *(finding for finding in looked.doctor if finding.level != "ok")])
        words.append(f"{name}, at {hosts[name].ssh}: {ready}\n{shown}")
    return "\n\n".join(words), len(before) == len(hosts)


def prepare_all(hosts: Mapping[str, HostSpec], say: Say) -> bool:
    """Copies this checkout to hosts and makes its Python environment there, in parallel; True if all are ready."""
    ends = _all_at_once(lambda name, spec: prepare(name, spec, say), hosts)
    for name, error in ends.items():
        if error:
            say(f"{name}: {error}")
    return not any(ends.values())


def _all_at_once(
    do: Callable[[str, HostSpec], Awaitable[T]], hosts: Mapping[str, HostSpec]
) -> dict[str, T | RqpsError]:
    async def one(name: str, spec: HostSpec) -> T | RqpsError:
        try:
            with explained():
                return await do(name, spec)
        except RqpsError as error:
            return error

    async def of_all() -> list[T | RqpsError]:
        return await asyncio.gather(*(one(name, spec) for name, spec in hosts.items()))

    return dict(zip(hosts, asyncio.run(of_all()), strict=True))


def run_on_hosts(
    runs_file: RunsFile,
    runs_yaml: Path,
    study: str,
    data: Path,
    *,
    archive: bool,
    budget_on: Callable[[str], Budget | None],
    hours: Hours | None,
    scheduler: str = "",
    another: bool = False,
) -> int:
    """Measures a study on all its hosts at once, independently; returns the exit code. A host that can't measure
    or is lost does not affect the others, and the next call measures the runs that the host missed."""
    from rqps.hosts.cluster import Cluster, cluster
    from rqps.hosts.worker import Order

    hosts = {name: runs_file.hosts[name] for name in runs_file.studies[study].hosts}
    revision, folder = git_revision(runs_yaml.absolute().parent), StudyFolder.of(data.absolute(), study)

    def on(name: str, parent: Watcher, joined: Cluster) -> int:
        with Watcher(folder.path, parent, name) as watcher:
            runner = joined.runner(name, hosts[name], watcher, Order(study, revision, f"rqps-{name}-{uuid4()}"))
            try:
                how: dict[str, Any] = {
                    "runner": runner,
                    "host": name,
                    "hours": hours,
                    "watcher": watcher,
                    "another": another,
                }
                return run_study(runs_file, study, data=data, budget=budget_on(name), **how)
            except RqpsError as error:
                watcher.say(str(error))
                return FAILED
            except Stopped:  # a signal stopped the preparation, before the first run
                assert watcher.stopped_by
                return 128 + watcher.stopped_by

    with Watcher() as parent:
        if archive and folder.path.exists():
            set_aside(folder, parent)
        with cluster(scheduler) as joined, ThreadPoolExecutor(len(hosts)) as threads:
            ends = [threads.submit(on, name, parent, joined) for name in hosts]
            while wait(ends, POLL_S).not_done:
                pass  # the main thread waits here, since only the main thread receives signals
    return max(end.result() for end in ends)
