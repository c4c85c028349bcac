"""The plan of a study, and its progress, as text for a terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rqps.engines import Row
from rqps.run.state import Estimate, RunState, planned_s
from rqps.study import Option, Run, in_words
from rqps.terminal import duration, megabytes
from rqps.workloads import workload

STATES = ("done", "failed", "missing", "other", "absent")
_IN_WORDS = {"other": "measured under other conditions", "absent": "not in this version"}


def plan_text(states: Sequence[RunState], servers: Mapping[str, str]) -> str:
    """A study's servers (in words, by build), their options, the runs in order, and the time that they take."""
    runs = [each.run for each in states]
    parts = [_head(runs), _servers(servers), _options(runs), _absent(runs), _order(states), _time(states)]
    return "\n\n".join(text for part in parts if (text := "\n".join(part)))


def status_text(states: Sequence[RunState]) -> str:
    """One line per run, with the error of those that failed."""
    width = max(len(each.run.run) for each in states)
    return "\n".join([*(_run_line(each, width) for each in states), summary(states)])


def servers_text(rows: Sequence[Row]) -> str:
    """One line per server: name, version, whether it is here, size, source."""
    cells = [("NAME", "VERSION", "FETCHED", "SIZE", "SOURCE")]
    for row in rows:
        size = megabytes(row.size_bytes) if row.size_bytes else "-"
        cells.append((row.name, row.version or "-", "yes" if row.fetched else "no", size, row.source))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def summary(states: Sequence[RunState]) -> str:
    """How far a study is, in one line.

    >>> summary([])
    'no runs'
    """
    if not states:
        return "no runs"
    counts = Counter[str](each.state for each in states)
    counted = ", ".join(f"{counts[state]} {_IN_WORDS.get(state, state)}" for state in STATES if counts[state])
    return f"{states[0].run.study}: {len(states)} runs, {counted}"


def _head(runs: Sequence[Run]) -> Iterator[str]:
    run = runs[0]
    dbms = dict.fromkeys(each.dbms for each in runs)
    rounds = Counter(each.mode for each in runs if each.dbms == run.dbms)
    of_mode = {mode: "rounds" if mode == "throughput" else f"{mode} rounds" for mode in rounds}
    each_dbms = ", ".join(f"{count} {of_mode[mode]}" for mode, count in rounds.items())
    parameters = run.parameters.model_dump(mode="json")
    yield f"{run.study}: {run.question}"
    yield f"  {len(dbms)} dbms × {each_dbms} = {len(runs)} runs on {run.host}; base is {run.base}"
    yield f"  {run.workload}: {', '.join(parameters.pop('steps', ())) or _made_of_parameters(run)}"
    yield f"  {', '.join(f'{name} {_plain(value)}' for name, value in parameters.items())}"
    yield f"  placement {run.placement or 'as suits the host'}, seed {run.seed}"


def _made_of_parameters(run: Run) -> str:
    """The steps of a workload whose names are not given, but follow from its parameters."""
    steps = workload(run.workload).steps(run.parameters)
    return f"{len(steps)} steps, {steps[0]} to {steps[-1]}"


def _plain(value: object) -> str:
    """
    >>> _plain(["innodb", "memory"]), _plain(True), _plain(4)
    ('innodb memory', 'true', '4')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _servers(servers: Mapping[str, str]) -> Iterator[str]:
    yield "servers"
    width = max(map(len, servers))
    yield from (f"  {build:{width}}  {words}" for build, words in servers.items())


def _options(runs: Sequence[Run]) -> Iterator[str]:
    """Shows a config as its difference from another where it can, since that is what a study compares."""
    yield "options, as asked for; each version gets them in its own form, and those with ? where it has them"
    configs = {run.config: run for run in runs}
    shown: dict[str, Mapping[str, Option]] = {}
    for config in sorted(configs, key=lambda name: (len(configs[name].options), name)):
        options = _asked_of(configs[config])
        users = sorted({run.dbms for run in runs if run.config == config})
        near = min(shown, key=lambda name: len(_differences(options, shown[name])), default=None)
        differences = _differences(options, shown[near]) if near else options
        if near and len(differences) < len(options):
            yield f"  {', '.join(users)}: as {near}, but" if differences else f"  {', '.join(users)}: as {near}"
        else:
            differences = options
            yield f"  {', '.join(users)}:" + ("" if options else " none, all its defaults")
        shown[config] = options
        yield from (f"    {_option(name, option)}" for name, option in sorted(differences.items()))


def _asked_of(run: Run) -> Mapping[str, Option]:
    """Options, and the scenario of the performance schema as if it were one."""
    return run.options if run.perf_schema is None else {**run.options, "perf_schema": Option(run.perf_schema.name)}


def _differences(options: Mapping[str, Option], other: Mapping[str, Option]) -> dict[str, Option | None]:
    names = options.keys() | other.keys()
    return {name: options.get(name) for name in names if options.get(name) != other.get(name)}


def _option(name: str, option: Option | None) -> str:
    if option is None:
        return f"{name} not set"
    return f"{name}{'?' if option.optional else ''} = {_word(option.value)}"


def _word(value: object) -> str:
    """
    >>> _word(True), _word("1G"), _word("")
    ('ON', '1G', "''")
    """
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value) if value != "" else "''"


def _absent(runs: Sequence[Run]) -> Iterator[str]:
    """Lists what is asked for and can't be had: it is never left out in silence."""
    if reasons := {run.dbms: run.absent for run in runs if run.absent}:
        yield "not in this version, so these have no runs"
        yield from (f"  {dbms}: {reason}" for dbms, reason in reasons.items())


def _order(states: Sequence[RunState]) -> Iterator[str]:
    yield "order of the runs"
    width = max(len(_cell(each)) for each in states)
    for (mode, number), round_ in groupby(states, key=lambda each: (each.run.mode, each.run.round)):
        cells = "  ".join(f"{_cell(each):{width}}" for each in round_)
        yield f"  {in_words(mode, number):8}  {cells}".rstrip()


def _cell(state: RunState) -> str:
    return state.run.dbms if state.state == "missing" else f"{state.run.dbms} ({_word_of(state)})"


def _word_of(state: RunState) -> str:
    return _IN_WORDS["absent"] if state.state == "absent" else state.state


def _time(states: Sequence[RunState]) -> Iterator[str]:
    todo = [planned_s(each.run) for each in states if each.state not in ("done", "absent")]
    yield summary(states)
    if todo:
        left = Estimate(todo).left_s()
        under_load = duration(sum(todo))
        yield f"  about {duration(left)} for what is not done, {under_load} of it under load; fetching comes on top"
    if any(each.state == "other" for each in states):
        yield "  some runs were measured under other conditions; `rqps run` says which, and --archive sets them aside"


def _run_line(state: RunState, width: int) -> str:
    line = f"{state.run.run:{width}}  {_IN_WORDS.get(state.state, state.state)}"
    if state.state == "failed":
        times = "once" if state.attempts == 1 else f"{state.attempts} times"
        return f"{line} {times}: {state.last_error}"
    return f"{line}: {state.run.absent}" if state.state == "absent" else line
