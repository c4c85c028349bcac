"""Describes the plan of a study, and its progress, as text for a terminal."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from rqps.engines import engine_of, facts_of
from rqps.engines.compiled import in_short
from rqps.engines.sources import how_compiled
from rqps.measure.notes import UnderWay
from rqps.numbers import counted, duration, megabytes
from rqps.schedule.hours import Hours
from rqps.schedule.state import Estimate, RunState
from rqps.store.manifest import PACKED_RUNS, finished_runs, studies, study_folder
from rqps.study import BuildSpec, Option, Run, RunsFile, in_words, option_files
from rqps.terminal import in_columns
from rqps.workloads import workload

STATES = {
    **{state: state for state in ("done", "failed", "missing")},
    "other": "measured under other conditions",
    "absent": "not in this version",
}


def plan_text(
    states: Sequence[RunState],
    servers: Mapping[str, str],
    fetch_bytes: int = 0,
    mistakes: Iterable[str] = (),
    buys: str = "",
    hours: Hours | None = None,
    occasions: str = "",
    option_files: Sequence[str] = (),
    disk: tuple[str, float] = ("", 0.0),
) -> str:
    """Describes a study's plan: the time it takes or the rounds that its budget buys, its further occasions, mistakes
    that would stop it, its servers (`servers` maps each build to a description), their options, the files with these
    options, and the order of the runs. `disk` is a sentence on the disk, and the seconds that runs wait for it."""
    runs = [run_state.run for run_state in states]
    members = [member for run in runs for member in run.members]
    sources = ["servers", *(f"  {line}" for line in in_columns(list(servers.items()), align="<"))]
    wrong = [f"  {line}" for mistake in mistakes for line in mistake.splitlines()]
    stopped = ["mistakes that would stop `rqps run`", *wrong] if wrong else []
    parts = [
        [*_time(states, fetch_bytes, buys, hours, disk), *([f"  {occasions}"] if occasions else [])],
        stopped,
        _head(runs, buys),
        sources,
        _options(members),
        option_files,
        _absent(runs),
        _order(states),
    ]
    return "\n\n".join(text for part in parts if (text := "\n".join(part)))


def option_files_lines(runs_file: RunsFile, study: str) -> Iterator[str]:
    """Yields each file that a study's configs take options from, and the lines of the file that rqps ignores or
    changes, with the reason."""
    spec = runs_file.studies[study]
    configs = dict.fromkeys(spec.named[dbms].config for dbms in spec.dbms)
    for config, file in option_files(runs_file.configs, configs):
        taken = sum(line.taken for line in file.lines)
        yield f"{file.path}, from which configs.{config} takes {taken} of {counted(len(file.lines), 'option')}"
        yield from (f"  line {line.number}: {line.name} {line.note}" for line in file.lines if line.note)


def status_text(states: Sequence[RunState]) -> str:
    """One line per run, with the error of those that failed."""
    width = max(len(run_state.run.unit) for run_state in states)
    return "\n".join([*(_run_line(run_state, width) for run_state in states), summary(states)])


def servers_text(
    builds: Mapping[str, BuildSpec], catalogue: Mapping[str, Mapping[str, BuildSpec]], engine: str = ""
) -> str:
    """Lists the builds of runs.yaml and, in short, the versions of each engine that can be fetched; with `engine`,
    describes all builds and versions of that engine."""
    if engine:
        own = {name: spec for name, spec in builds.items() if spec.engine == engine}
        return _servers({**own, **catalogue[engine]})
    sources = {name: engine_of(spec).source(name, spec) for name, spec in builds.items()}
    here = {name: spec for name, spec in builds.items() if sources[name].present()}
    listed = [_servers(here)] if here else []
    for name, versions in catalogue.items():
        title = facts_of(name).title
        others = [build for build, spec in builds.items() if spec.engine == name and build not in here]
        if others:
            listed.append(_wrapped(f"{title}, builds of runs.yaml that are not here", others))
        fetched = [version for version, spec in versions.items() if engine_of(spec).source(version, spec).present()]
        shown = [f"{version}{'*' if version in fetched else ''}" for version in versions]
        head = f"{title}, {counted(len(versions), 'version')} of the catalogue, {len(fetched)} fetched (*)"
        listed.append(_wrapped(head, shown))
    engines = " or ".join(catalogue)
    more = f"details: rqps servers list ENGINE; to fetch one: rqps servers fetch ENGINE VERSION; ENGINE is {engines}"
    return "\n\n".join([*listed, more])


def _wrapped(head: str, names: Iterable[str]) -> str:
    lines = wrap(", ".join(names), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([head, *lines])


def _servers(builds: Mapping[str, BuildSpec]) -> str:
    """One line per build or version of the catalogue: engine, version, whether it is fetched, size, source, and how
    it was compiled. The version is what the server reported or, before the build was started, what runs.yaml or the
    catalogue says."""
    lines = [("NAME", "ENGINE", "VERSION", "FETCHED", "SIZE", "SOURCE", "COMPILED")]
    for name, spec in builds.items():
        source = engine_of(spec).source(name, spec)
        size_bytes, version = source.size_bytes(), source.version or spec.version or "-"
        size = megabytes(size_bytes) if size_bytes else "-"
        title = facts_of(spec.engine).title
        how = in_short(how_compiled(source.program, source.sought)) if source.program else "-"
        lines.append((name, title, version, "yes" if source.program else "no", size, source.words, how))
    return "\n".join(in_columns(lines, align="<"))


def summary(states: Sequence[RunState]) -> str:
    """The progress of a study, in one line."""
    counts = Counter[str](run_state.state for run_state in states)
    counted_states = ", ".join(f"{counts[state]} {words}" for state, words in STATES.items() if counts[state])
    return f"{states[0].run.study}: {counted(len(states), 'run')}, {counted_states}"


def under_way_text(data: Path) -> str:
    """Describes the runs that are measured now, each with its step and the time left; empty if no run is measured."""
    folders = sorted((data / "raw").glob("study=*"))
    return "\n".join(run.text(folder) for folder in folders for run in UnderWay.of(folder))


def reportable_text(data: Path, study: str | None = None) -> str:
    """Lists the studies that can be shown and reported now: those that were measured here, and the samples."""
    kinds: dict[str, list[str]] = {}
    for name in studies(data):
        if study not in (None, name):
            continue
        folder = study_folder(name, data)
        if (folder / PACKED_RUNS).is_file() or finished_runs(folder):
            kinds.setdefault(folder.parent.name, []).append(name)
    words = {"raw": "measured here", "sample": "samples"}
    lines = [f"  {words[kind]}: {', '.join(kinds[kind])}" for kind in words if kind in kinds]
    return "\n".join(["studies that `rqps show` and `rqps report` can use now", *lines]) if lines else ""


def _head(runs: Sequence[Run], buys: str) -> Iterator[str]:
    run = runs[0]
    dbms = dict.fromkeys(member.dbms for unit in runs for member in unit.members)
    rounds = Counter(unit.mode for unit in runs if run.base in {member.dbms for member in unit.members})
    of_mode = {mode: "round" if mode == "throughput" else f"{mode} round" for mode in rounds}
    each_dbms = ", ".join(counted(number, of_mode[mode]) for mode, number in rounds.items())
    how = " in turns" if any(unit.beside for unit in runs) else ""
    count = ", within a budget," if buys else f" × {each_dbms} = {counted(len(runs), 'run')}"
    parameters = run.parameters.model_dump(mode="json")
    named = ", ".join(parameters.pop("steps", ()))
    if not named:
        steps = workload(run.workload).steps(run.parameters)
        named = f"{len(steps)} steps, {steps[0]} to {steps[-1]}"
    yield f"{run.study}: {run.question}"
    yield f"  {len(dbms)} dbms{how}{count} on {run.host}; base is {run.base}"
    yield f"  {run.workload}: {named}"
    yield "  " + ", ".join(f"{name} {_word(value, ('true', 'false'))}" for name, value in parameters.items())
    yield f"  placement {run.placement or 'chosen for the host'}, seed {run.seed}"
    layouts = {(member.build, member.layout) for unit in runs for member in unit.members if member.layout is not None}
    for build in sorted({build for build, _ in layouts}):
        numbers = [str(number) for name, number in sorted(layouts) if name == build]
        yield f"  layouts of {build}, in the order of the rounds: {', '.join(numbers)}"


def _options(runs: Sequence[Run]) -> Iterator[str]:
    """Lists each config's options, or only those in which it differs from a config above if these are fewer."""
    yield "options as configured; rqps translates them for each version, and leaves out those with ? that it lacks"
    configs = {run.config: run for run in runs}
    shown: dict[str, Mapping[str, Option]] = {}
    for config in sorted(configs, key=lambda name: (len(configs[name].options), name)):
        run = configs[config]
        key = facts_of(run.build_spec.engine).scenarios.KEY
        scenario = {key: Option(run.scenario.name)} if run.scenario else {}
        options = {**run.options, **scenario}
        users = sorted({run.dbms for run in runs if run.config == config})
        near = min(shown, key=lambda name: len(_differences(options, shown[name])), default=None)
        differences = _differences(options, shown[near]) if near else options
        if near and len(differences) < len(options):
            yield f"  {', '.join(users)}: as {near}, but" if differences else f"  {', '.join(users)}: as {near}"
        else:
            differences = options
            yield f"  {', '.join(users)}:" + ("" if options else " none, all its defaults")
        shown[config] = options
        for name, option in sorted(differences.items()):
            yield f"    {name}{'?' * option.optional} = {_word(option.value)}" if option else f"    {name} not set"


def _differences(options: Mapping[str, Option], other: Mapping[str, Option]) -> dict[str, Option | None]:
    names = options.keys() | other.keys()
    return {name: options.get(name) for name in names if options.get(name) != other.get(name)}


def _word(value: object, switch: tuple[str, str] = ("ON", "OFF")) -> str:
    """
    >>> _word(True), _word(["a", "b"]), _word("")
    ('ON', 'a b', "''")
    """
    if isinstance(value, bool):
        return switch[not value]
    return " ".join(map(str, value)) if isinstance(value, list) else str(value) or "''"


def _absent(runs: Sequence[Run]) -> Iterator[str]:
    """Lists each dbms that has no runs because the build lacks a feature that the config requests."""
    if reasons := {run.dbms: run.absent for run in runs if run.absent}:
        yield "not in this version, so these have no runs"
        yield from (f"  {dbms}: {reason}" for dbms, reason in reasons.items())


def _order(states: Sequence[RunState]) -> Iterator[str]:
    yield "order of the runs"
    every = [
        (now.run, now.state, [_cell(one.side or one.dbms, now.state) for one in now.run.members]) for now in states
    ]
    width = max(len(cell) for _, _, cells in every for cell in cells)
    for (mode, number), round_ in groupby(every, key=lambda row: (row[0].mode, row[0].round)):
        cells = "  ".join(f"{cell:{width}}" for _, _, cells in round_ for cell in cells)
        yield f"  {in_words(mode, number):8}  {cells}".rstrip()


def _cell(dbms: str, state: str) -> str:
    return dbms if state == "missing" else f"{dbms} ({STATES[state]})"


def _time(
    states: Sequence[RunState], fetch_bytes: int, buys: str, hours: Hours | None, disk: tuple[str, float]
) -> Iterator[str]:
    todo = [now.run for now in states if now.state not in ("done", "absent")]
    what = "the runs that are not done"
    yield summary(states)
    if buys:
        yield f"  {buys}"
        yield "  after the first round, undecided dbms get further rounds until all is decided or the time is over"
        todo, what = [run for run in todo if run.mode != "throughput"], "runs in other modes afterwards"
    about_disk, waiting_s = disk
    if todo:
        left = Estimate.of(todo).left_s() + waiting_s
        under_load = duration(sum(run.estimated_seconds for run in todo))
        fetching = f", and fetching {megabytes(fetch_bytes)}" if fetch_bytes else ""
        waiting = f", {duration(waiting_s)} waiting for the disk" if waiting_s else ""
        yield f"  about {duration(left)} for {what}, {under_load} of it under load{waiting}{fetching}"
        if about_disk:
            yield f"  {about_disk}"
        if hours:
            yield f"  {hours.plan(todo, time.time())}"
    if any(now.state == "other" for now in states):
        yield "  some runs were measured under other conditions; `rqps run` says which, and --archive sets them aside"


def _run_line(state: RunState, width: int) -> str:
    line = f"{state.run.unit:{width}}  {STATES[state.state]}"
    if state.state == "failed":
        times = "once" if state.attempts == 1 else f"{state.attempts} times"
        return f"{line} {times}: {state.last_error}"
    if state.state == "absent":
        return f"{line}: {state.run.absent}"
    return line if state.run.side is None else f"{line}: {state.run.who}"
