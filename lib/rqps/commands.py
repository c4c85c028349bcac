"""Turns the arguments of each command into a call: a function refuses bad input first, then returns the call.

Imports are inside the functions: `rqps --help` must not wait for polars.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rqps.errors import RqpsError
from rqps.terminal import printable

if TYPE_CHECKING:
    from rqps.engines.sources import Source
    from rqps.schedule.budget import Budget
    from rqps.schedule.commits import Checkout
    from rqps.schedule.hours import Hours
    from rqps.store import Study
    from rqps.study import Run, RunsFile

FAILED, SLOWER = 1, 3

Call = Callable[[], int]
"""A function that does the work of a command and returns the exit code."""


def _asked(arguments: argparse.Namespace) -> "tuple[Path, RunsFile, Path]":
    """The path of the runs.yaml with the study, the contents of this file, and the path of the data folder."""
    from rqps.study import first_rounds, read_runs_file, study_of, within_budget
    from rqps.workloads import PARAMETERS

    study, runs_yaml = arguments.study, arguments.runs_yaml or _nearest()
    if runs_yaml is None:
        fix = "go to the checkout, or name one with --runs-yaml"
        raise RqpsError(f"{Path.cwd()}: no runs.yaml here or above", fix=fix)
    data = _data(arguments, runs_yaml)
    runs_file = read_runs_file(runs_yaml, PARAMETERS, study)
    if study is not None and study not in runs_file.studies:
        from rqps.schedule.levels import file_of_level
        from rqps.schedule.tries import file_of_try

        runs_yaml = file_of_level(data, study) or file_of_try(data, study) or runs_yaml
        runs_file = read_runs_file(runs_yaml, PARAMETERS, study)
    if study is not None:
        study_of(runs_file, study)
    rounds, budget = (getattr(arguments, name, None) for name in ("rounds", "budget"))
    if rounds is not None and budget is not None:
        raise RqpsError("--rounds and --budget can't be combined", fix="give one of them")
    if rounds is not None:
        runs_file = first_rounds(runs_file, study, rounds)
    if budget is not None:
        runs_file = within_budget(runs_file, study, budget)
    return runs_yaml, runs_file, data


def _nearest() -> Path | None:
    folders = (Path(), *Path.cwd().parents)
    return next((folder / "runs.yaml" for folder in folders if (folder / "runs.yaml").is_file()), None)


def _runs_file(runs_yaml: Path | None = None) -> "RunsFile":
    """The contents of the runs.yaml at this path; without a path, of the nearest runs.yaml."""
    from rqps.study import read_runs_file
    from rqps.workloads import PARAMETERS

    return read_runs_file(runs_yaml or _nearest() or Path("runs.yaml"), PARAMETERS)


def _data(arguments: argparse.Namespace, runs_yaml: Path | None) -> Path:
    from rqps.store.manifest import data_folder

    named = arguments.data or os.environ.get("RQPS_DATA")
    return (data_folder(named) if named else (runs_yaml or Path("runs.yaml")).absolute().parent / "data").absolute()


def known_studies(**_: object) -> list[str]:
    """The names of all known studies, for the completion of words in a shell."""
    from rqps.store.manifest import data_folder, studies

    names: list[str] = []
    with suppress(RqpsError):
        names += _runs_file().studies
    with suppress(RqpsError):
        names += studies(data_folder())
    return sorted(set(names))


def doctor(arguments: argparse.Namespace) -> Call:
    data = _data(arguments, _nearest())

    def call() -> int:
        from rqps.finding import render, worst
        from rqps.measure.doctor import examine

        findings = examine(data, say=_say)
        print(render(findings))
        return FAILED if worst(findings) == "bad" else 0

    return call


def servers(arguments: argparse.Namespace) -> Call:
    from rqps.engines import ENGINES, catalogued, engine_of, facts_of
    from rqps.errors import instead
    from rqps.overview import servers_text

    runs_yaml = arguments.runs_yaml or _nearest()
    builds = _runs_file(runs_yaml).builds if runs_yaml else {}  # the catalogue needs no runs.yaml
    catalogue, names = catalogued(), arguments.names
    if arguments.what == "list":
        if len(names) > 1 or not set(names) <= set(ENGINES):
            what = f"servers list: {' '.join(names)} is not an engine"
            raise RqpsError(what, fix=f"rqps servers, alone or with one of the engines: {', '.join(ENGINES)}")
        return lambda: _print(servers_text(builds, catalogue, *names))
    if not 0 < len(names) <= 2:
        fix = "rqps servers fetch NAME with a build of runs.yaml, or rqps servers fetch ENGINE VERSION"
        raise RqpsError("servers fetch takes the name of one build, or an engine and a version", fix=fix)
    first, *version = names
    if version and first not in catalogue:
        fix = "rqps servers fetch ENGINE VERSION"
        raise RqpsError(f"unknown engine {first!r}; {instead(first, catalogue, 'engines')}", fix=fix)
    if not version and first not in builds and (owners := [name for name in ENGINES if first in catalogue[name]]):
        fix = " or ".join(f"rqps servers fetch {engine} {first}" for engine in owners)
        titles = " and ".join(facts_of(engine).title for engine in owners)
        raise RqpsError(f"{first} is a version of {titles}: name the engine, too", fix=fix)
    known, name = (catalogue[first], version[0]) if version else (builds, first)
    if name not in known:
        what, kind = (f"{first} version", f"versions of {first}") if version else ("build", "builds")
        fix = "name one that `rqps servers` lists, or add it to runs.yaml"
        raise RqpsError(f"unknown {what} {name!r}; {instead(name, known, kind)}", fix=fix)
    spec = known[name]

    def call() -> int:
        build = engine_of(spec).locate(name, spec, _say)
        return _print(
            f"{build.name}: {facts_of(spec.engine).title} {build.version}, {build.source}, in {build.directory}"
        )

    return call


def hosts(arguments: argparse.Namespace) -> Call:
    from rqps.errors import instead

    every = _runs_file(arguments.runs_yaml).hosts
    for name in arguments.names:
        if name not in every:
            raise RqpsError(f"unknown host {name!r}; {instead(name, every, 'hosts')}", fix="add it to runs.yaml")
    if not every:
        fix = "write them into runs.yaml, such as hosts: {big: {ssh: me@big.example}}"
        raise RqpsError("runs.yaml has no hosts", fix=fix)
    named = {name: every[name] for name in arguments.names or every}

    def call() -> int:
        from rqps.hosts import check, prepare_all

        if arguments.what == "prepare":
            return 0 if prepare_all(named, _say) else FAILED
        words, ready = check(named)
        print(words)
        return 0 if ready else FAILED

    return call


def plan(arguments: argparse.Namespace) -> Call:
    from rqps.engines import engine_of
    from rqps.engines.making.recipe import recipe_of
    from rqps.numbers import duration
    from rqps.overview import option_files_lines, plan_text
    from rqps.schedule.state import Estimate, state, this_host
    from rqps.study import builds_of

    _, runs_file, data = _asked(arguments)
    hours = _hours(arguments)
    study = arguments.study
    sources = _sources(runs_file, study)
    named, buys = runs_file.studies[study].hosts, _bought(runs_file, study, data)

    def of_host(host: str) -> tuple[int, float]:
        from rqps.measure.job import foresee

        occasions, later_s = _occasions(runs_file, study, data, host)
        states = state(runs_file, study, data, host)
        absent = {build for build, origin in sources.items() if not origin.present()}
        fetched = {
            build for build in absent if runs_file.builds[build].source not in ("path", "on_path", "made_from")
        }
        made = [(name, spec) for name, spec in builds_of(runs_file, study) if spec.made_from is not None]
        to_make = {name for name, spec in made if engine_of(spec).source(name, spec).present() is None}
        room_mb = {name: recipe_of(name, spec.engine, spec.recipe or ()).base.room_mb for name, spec in made}
        to_do = dict.fromkeys(fetched, ", to be fetched")
        to_do |= {name: f", to be made in up to {room_mb[name]} MB: run --make" for name in to_make}
        servers = {build: origin.words + to_do.get(build, "") for build, origin in sources.items()}
        fetch_bytes = sum(sources[build].size_bytes() or 0 for build in fetched)
        todo = [now.run for now in states if now.state not in ("done", "absent")]
        mistakes = foresee([] if named else todo)  # another host can't be checked from here
        mistakes += _rebuilt(runs_file, study, data)
        wrong, files = [str(mistake) for mistake in mistakes], [*option_files_lines(runs_file, study)]
        disk = _disk([] if named else todo, asked=arguments.disk and not named)
        _print(plan_text(states, servers, fetch_bytes, wrong, buys[host], hours, occasions, files, disk))
        return FAILED if mistakes else 0, Estimate.of(todo).left_s() + later_s

    def call() -> int:
        answers = [of_host(host) for host in named or (this_host(),)]
        if len(named) > 1:
            left_s = max(left_s for _, left_s in answers)
            print(f"\n{study}: all {len(named)} hosts at once, about {duration(left_s)}")
        return max(code for code, _ in answers)

    return call


def _occasions(runs_file: "RunsFile", study: str, data: Path, host: str) -> tuple[str, float]:
    """A sentence about the occasions that a study still needs after the current one, and the seconds that they take,
    pauses included; an empty text and 0 if none is left."""
    from rqps.numbers import counted, duration
    from rqps.schedule.state import Estimate, StudyFolder
    from rqps.study import Measured, on_host, unfold

    own, now = on_host(runs_file, study, host), StudyFolder.of(data, study).measured(host).occasion
    spec = own.studies[study]
    if (further := spec.occasions - now) < 1:
        return "", 0.0
    runs = unfold(own, study, host, Measured(occasion=now + 1))
    new = [run for run in runs if run.occasion > now and run.mode == "throughput" and not run.absent]
    each_s = spec.budget_s or Estimate.of(new).left_s()
    later_s = further * (spec.apart_s + each_s)
    words = (
        f"this is occasion {now} of {spec.occasions}; {counted(further, 'more occasion')} from newly loaded tables"
    )
    times = f"take {duration(each_s)} each, {duration(spec.apart_s)} apart: {duration(later_s)} after this one"
    return f"{words} {times}", later_s


def _disk(runs: "Sequence[Run]", *, asked: bool) -> tuple[str, float]:
    """A sentence on the speed of the disk, and the seconds that runs wait for the disk. The disk is measured only
    if the user `asked` for it or a run depends on it; otherwise the text is empty."""
    from rqps.engines.cache import scratch_dir
    from rqps.measure.device import measure_device
    from rqps.numbers import duration_us, megabytes
    from rqps.schedule.run_folder import measuring

    if not asked and not any(run.disk_seconds() for run in runs):
        return "", 0.0
    try:
        with measuring("plan"):
            device = measure_device(scratch_dir())
    except RqpsError as error:
        return f"the disk was not measured, so the time does not include waits for it: {error.message}", 0.0
    read, write = (duration_us(seconds * 1e6) for seconds in device[:2])
    of_pages = f"the disk reads 16 KB in {read} and writes 16 KB in {write}, past the page cache"
    words = f"{of_pages}; it writes {megabytes(round(device.bytes_per_s))} a second"
    return words, sum(run.disk_seconds(device) for run in runs)


def _rebuilt(runs_file: "RunsFile", study: str, data: Path) -> list[RqpsError]:
    """The error that `rqps run` raises if a build of the study was rebuilt since it was measured here, as a list of
    one; otherwise an empty list."""
    from rqps.schedule.rebuilds import known_versions, rebuilt, refusal
    from rqps.schedule.state import StudyFolder, this_host

    changed = rebuilt(known_versions(StudyFolder.of(data, study).path, runs_file, study, this_host()))
    return [refusal(study, changed)] if changed else []


def _sources(runs_file: "RunsFile", study: str) -> "dict[str, Source]":
    """Maps each build of a study to its source. Raises RqpsError for a version that no source has."""
    from rqps.engines import engine_of

    specs = {build: runs_file.builds[build] for build in sorted(runs_file.studies[study].builds)}
    return {build: engine_of(spec).source(build, spec) for build, spec in specs.items()}


def builds(arguments: argparse.Namespace) -> Call:
    from rqps.engines.asked import BuildSpec
    from rqps.engines.making import Making
    from rqps.engines.making.recipe import parts_of
    from rqps.errors import instead

    runs_yaml = arguments.runs_yaml or _nearest() or Path("runs.yaml")
    runs_file = _runs_file(runs_yaml)
    known = {name: spec for name, spec in runs_file.builds.items() if spec.made_from is not None}
    for name in arguments.names:
        if name not in known:
            what = f"unknown build {name!r}; {instead(name, known, 'builds with a source')}"
            raise RqpsError(what, fix="name one that `rqps builds` lists, or write source and recipe into runs.yaml")
    if arguments.what == "make" and not arguments.names:
        raise RqpsError("builds make: no build is named", fix="name one or more that `rqps builds` lists")

    def line(name: str, spec: BuildSpec) -> str:
        try:
            making = Making.of(name, spec)
            state = "made" if making.tree.is_dir() else "not made"
            if arguments.names:
                return f"{making.in_words()}\n  {state}"
        except RqpsError as error:  # the build's directory of sources is missing
            state = error.message.removeprefix(f"builds.{name}.")
        parts = parts_of(f"builds.{name}.recipe", spec.engine, spec.recipe or ())
        about = "; ".join(part.about for part in parts.values())
        return f"{name}: {state}; {about}"

    def call() -> int:
        from rqps.schedule.run_study import LocalRunner
        from rqps.schedule.training import JOBS, make_builds

        if arguments.what == "list":
            shown = {name: known[name] for name in arguments.names} or known
            lines = [line(name, spec) for name, spec in shown.items()]
            return _print("\n".join(lines) or "no build of runs.yaml has a source and a recipe")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM ends the compilers, as Ctrl-C does
        runner = LocalRunner(_notebooks(runs_yaml), runs_yaml)
        jobs, niceness = arguments.jobs or JOBS, arguments.nice
        named = [(name, known[name]) for name in dict.fromkeys(arguments.names)]
        make_builds(runs_file, named, runner, _say, jobs=jobs, niceness=niceness)
        return 0

    return call


def _make_missing(runs_file: "RunsFile", study: str, runs_yaml: Path) -> None:
    """Makes the builds of a study that are made from source and are not made yet."""
    from rqps.schedule.run_study import LocalRunner
    from rqps.schedule.training import make_builds
    from rqps.study import builds_of

    made = [(name, spec) for name, spec in builds_of(runs_file, study) if spec.made_from is not None]
    make_builds(runs_file, made, LocalRunner(_notebooks(runs_yaml), runs_yaml), _say)


def run(arguments: argparse.Namespace) -> Call:
    runs_yaml, runs_file, data = _asked(arguments)
    _sources(runs_file, arguments.study)
    _bought(runs_file, arguments.study, data, afresh=arguments.archive)
    hours = _hours(arguments)
    if arguments.scheduler and not runs_file.studies[arguments.study].hosts:
        fix = "add hosts: to the study in runs.yaml; the Dask worker of a host has the host's name"
        raise RqpsError(f"--scheduler {arguments.scheduler}: {arguments.study} names no hosts", fix=fix)
    if arguments.rebuilt and (arguments.archive or runs_file.studies[arguments.study].hosts):
        what = "--archive measures builds as they are now" if arguments.archive else "hosts have builds of their own"
        raise RqpsError(f"{arguments.study}: --rebuilt can't be used here: {what}")

    def measure(runs_file: "RunsFile", study: str) -> int:
        from rqps.schedule.run_study import LocalRunner, run_study
        from rqps.schedule.state import this_host

        budget_on = partial(_budget, runs_file, study, data)
        how: dict[str, Any] = {"archive": arguments.archive, "hours": hours, "another": arguments.occasion}
        if runs_file.studies[study].hosts:
            from rqps.hosts import run_on_hosts

            how |= {"budget_on": budget_on, "scheduler": arguments.scheduler}
            return run_on_hosts(runs_file, runs_yaml, study, data, **how)
        runner = LocalRunner(_notebooks(runs_yaml), runs_yaml)
        how |= {"budget": budget_on(this_host()), "rebuilt": arguments.rebuilt, "note": arguments.note}
        return run_study(runs_file, study, data=data, runner=runner, **how)

    def call() -> int:
        from rqps.schedule.levels import run_levels
        from rqps.store import load

        if arguments.make:
            _make_missing(runs_file, arguments.study, runs_yaml)
        code = measure(runs_file, arguments.study)
        last = runs_file.studies[arguments.study].measure_parts_of is None or arguments.rounds is not None
        if not code and not last:
            code = run_levels(runs_yaml, arguments.study, data, measure, _say)
        with suppress(RqpsError):  # without finished runs, nothing is shown
            _show(load(arguments.study, data))
        return code

    return call


def _checkout(arguments: argparse.Namespace, runs_file: "RunsFile") -> "Checkout | None":
    """The checkout of --checkout, with the command or the recipe that builds its commits; None without the option."""
    from rqps.schedule.commits import Checkout

    if bool(arguments.make) + bool(arguments.recipe) != bool(arguments.checkout):
        fix = "--checkout FOLDER with --make 'make install …', or with --recipe gcc o2"
        raise RqpsError("--checkout goes with either --make or --recipe", fix=fix)
    if not arguments.checkout:
        return None
    spec = runs_file.studies[arguments.study]
    engine = runs_file.builds[spec.named[spec.base].build].engine
    return Checkout(arguments.checkout, arguments.make, _say, tuple(arguments.recipe), engine)


def bisect(arguments: argparse.Namespace) -> Call:
    from rqps.schedule.bisection import bisection
    from rqps.schedule.run_study import LocalRunner

    runs_yaml, runs_file, data = _asked(arguments)
    if arguments.checkout and arguments.builds:
        raise RqpsError("--builds and --checkout can't be combined", fix="give one of them")
    if arguments.count and arguments.occasion:
        what = "--occasion can't be combined with --count: counts are the same at any hour"
        raise RqpsError(what, fix="leave one of them out")
    if arguments.every < 1:
        raise RqpsError(f"--every {arguments.every}: must be 1 or more", fix="--every 5 takes every fifth build")
    checkout = _checkout(arguments, runs_file)
    asked = bisection(
        runs_file,
        arguments.study,
        arguments.step,
        (arguments.good, arguments.bad),
        arguments.builds,
        counts=arguments.count,
        data=data,
        runner=LocalRunner(_notebooks(runs_yaml), runs_yaml),
        say=_say,
        every=arguments.every,
        checkout=checkout,
        another=arguments.occasion,
    )

    def call() -> int:
        with redirect_stdout(sys.stderr):  # only the answer goes to stdout
            text, code = asked.run()
        print(text)
        return code

    return call


def watch(arguments: argparse.Namespace) -> Call:
    from rqps.schedule.moving_builds import FILE, watch_of

    runs_yaml, runs_file, data = _asked(arguments)
    if bool(arguments.acknowledge) != bool(arguments.remark):
        raise RqpsError("--acknowledge and --remark go together", fix="--acknowledge STEP --remark 'why it is so'")
    if bool(arguments.branch) != bool(arguments.checkout):
        raise RqpsError("--branch and --checkout go together", fix="give both, or install the build yourself")
    checkout = _checkout(arguments, runs_file)
    asked = watch_of(runs_file, arguments.study, runs_yaml.parent / FILE, data)

    def call() -> int:
        from rqps.schedule.run_study import LocalRunner
        from rqps.show import watch_text

        if arguments.acknowledge:
            return _print(asked.acknowledge(arguments.acknowledge, arguments.remark))
        note = arguments.note
        runner = LocalRunner(_notebooks(runs_yaml), runs_yaml)
        if checkout:
            with runner.measuring(arguments.study):  # no build is replaced while another process measures it
                commit = asked.install(checkout, arguments.branch)
            note = note or commit
        with redirect_stdout(sys.stderr):  # a CI job takes its summary from stdout
            code = asked.measure(runner, note, _say)
        if code:
            return code
        unacknowledged = asked.open()
        _print(watch_text(arguments.study, asked.changes(), unacknowledged, markdown=arguments.markdown))
        return SLOWER if "slower" in unacknowledged["seen"].to_list() else 0

    return call


def try_(arguments: argparse.Namespace) -> Call:
    from rqps.schedule.tries import Try, study_of_try

    data, runs_yaml = _data(arguments, arguments.runs_yaml or _nearest()), arguments.runs_yaml or _nearest()
    of_statements = [name for name in ("tables", "dbms", "values") if getattr(arguments, name)]
    if bool(arguments.build) == bool(of_statements):
        fix = "rqps try --build PATH, or rqps try 'SELECT …' --tables FILE --dbms A B; see rqps try --help"
        raise RqpsError(
            "rqps try takes either a build (--build) or a statement (--tables, --dbms, --values)", fix=fix
        )
    if of_statements:
        return _try_statement(arguments, runs_yaml, data)
    asked = Try(
        build=arguments.build,
        steps=tuple(arguments.steps),
        base=arguments.base,
        config=arguments.config,
        against=arguments.against,
        rounds=arguments.rounds or Try.rounds,
    )

    runs_file, study = study_of_try(asked, runs_yaml, data, _say)

    def call() -> int:
        from rqps.schedule.run_study import LocalRunner, run_study
        from rqps.schedule.tries import is_first
        from rqps.store import load

        if is_first(runs_file, study, data, arguments.note, _say):
            what = "the current build is copied, as the base"
            return _print(f"{study}: {what}; next: rebuild it, then run the same command again")
        runner = LocalRunner(_notebooks(runs_yaml), runs_yaml or data)
        code = run_study(runs_file, study, data=data, runner=runner, rebuilt=True, note=arguments.note)
        with suppress(RqpsError):  # without finished runs, nothing is shown
            _show(load(study, data))
        return code

    return call


def _try_statement(arguments: argparse.Namespace, runs_yaml: Path | None, data: Path) -> Call:
    from rqps.numbers import counted
    from rqps.schedule.tries import StatementTry, study_of_statement

    if len(arguments.steps) != 1 or not arguments.tables:
        fix = "give one statement in quotes, before the options, and a file with --tables"
        raise RqpsError(
            f"try needs one statement and --tables FILE: got {counted(len(arguments.steps), 'statement')}, "
            f"{f'--tables {arguments.tables}' if arguments.tables else 'no --tables'}",
            fix=fix,
        )
    asked = StatementTry(
        sql=arguments.steps[0], tables=arguments.tables, dbms=tuple(arguments.dbms), values=tuple(arguments.values)
    )
    runs_file, study, entry = study_of_statement(asked, runs_yaml, data)

    def call() -> int:
        from rqps.report.site import investigate
        from rqps.schedule.run_study import LocalRunner, run_study
        from rqps.schedule.state import this_host
        from rqps.store import load

        runner = LocalRunner(_notebooks(runs_yaml), runs_yaml or data)
        code = run_study(
            runs_file, study, data=data, runner=runner, budget=_budget(runs_file, study, data, this_host())
        )
        with suppress(RqpsError):  # without finished runs, nothing is shown
            _show(load(study, data))
            _print(f"the page: {investigate(study, data, {})[1]}")
        return code or _print(f"to measure it again with other steps or dbms, add this to runs.yaml:\n\n{entry}")

    return call


def _notebooks(runs_yaml: Path | None) -> Path:
    """The folder `notebooks` beside a runs.yaml, or else the one in the checkout of rqps."""
    beside = (runs_yaml or Path("runs.yaml")).absolute().parent / "notebooks"
    return beside if (beside / "run").is_dir() else Path(__file__).parents[2] / "notebooks"


def _hours(arguments: argparse.Namespace) -> "Hours | None":
    if arguments.between is None:
        return None
    from rqps.schedule.hours import Hours

    return Hours.read(arguments.between)


def _budget(runs_file: "RunsFile", study: str, data: Path, host: str) -> "Budget | None":
    """The study's budget on a host, with the verdicts so far, which decide on further rounds; None if the study has
    no budget."""
    from rqps.schedule.state import StudyFolder, as_measured

    folder = StudyFolder(data / "raw" / f"study={study}")  # a packed study is refused later, when runs are added
    spec = as_measured(folder, runs_file, study, host).studies[study]
    if spec.budget_s is None:
        return None
    from rqps.schedule.budget import Budget
    from rqps.stats import InterimAnalyses
    from rqps.workloads import workload

    steps = workload(spec.workload).steps(spec.parameters)
    return Budget(spec.budget_s, InterimAnalyses(study, data, spec, steps, host))


def _bought(runs_file: "RunsFile", study: str, data: Path, *, afresh: bool = False) -> dict[str, str]:
    """Maps each host to a sentence that says how many rounds fit into the study's budget; empty without a budget.
    Refuses a budget that is shorter than a round."""
    from rqps.schedule.state import StudyFolder, as_measured, this_host
    from rqps.study import Measured

    bought: dict[str, str] = {}
    for host in runs_file.studies[study].hosts or (this_host(),):
        bought[host] = ""
        if budget := _budget(runs_file, study, data, host):
            folder = StudyFolder.of(data, study)
            measured = Measured() if afresh else folder.measured(host)
            bought[host] = budget.plan(as_measured(folder, runs_file, study, host), study, host, measured)
    return bought


def status(arguments: argparse.Namespace) -> Call:
    from rqps.overview import reportable_text, status_text, summary, under_way_text
    from rqps.schedule.state import state

    _, runs_file, data = _asked(arguments)

    def call() -> int:
        code = 0
        for study in [arguments.study] if arguments.study else runs_file.studies:
            try:
                states = state(runs_file, study, data, thorough=arguments.check)
            except RqpsError as error:  # the other studies are shown nevertheless
                code = FAILED
                _say(f"{study}: {error}")
            else:
                _print(status_text(states) if arguments.study else summary(states))
                for offer in _rebuilt(runs_file, study, data):
                    _print(str(offer))
        for text in (under_way_text(data), reportable_text(data, arguments.study)):
            if text:
                _print(text)
        return code

    return (lambda: _watch(data, call)) if arguments.watch else call


def _watch(data: Path, show_all: Call) -> int:
    """Shows the current run until Ctrl-C, and the whole status whenever no run is measured. During a run it
    reads only two small files now and then, so as not to disturb the measurement."""
    from rqps.overview import under_way_text

    clear, every_s = ("\x1b[H\x1b[2J", 2) if sys.stdout.isatty() else ("", 60)
    before = None
    with suppress(KeyboardInterrupt):
        while True:
            now = under_way_text(data)
            if now:
                print(f"{clear}{printable(now)}", flush=True)
            elif before != now:
                print(clear, end="")
                show_all()
                print("nothing is measured now", flush=True)
            before = now
            time.sleep(every_s)
    return 0


def show(arguments: argparse.Namespace) -> Call:
    from rqps.show.answer import steps_named
    from rqps.store import load

    data = _data(arguments, _nearest())
    study = load(arguments.study, data)
    steps_named(study.steps["step"].unique(maintain_order=True).to_list(), arguments.steps or ())
    how = {"steps": arguments.steps or (), "every": arguments.all, "markdown": arguments.markdown}
    return lambda: _show(study, **how)


def _show(study: "Study", **how: Any) -> int:
    import polars as pl

    from rqps import show, stats
    from rqps.schedule.rebuilds import rebuilt_since, refusal
    from rqps.schedule.state import this_host

    now = ~pl.col("dbms").is_in(stats.superseded(study))
    compared, means = stats.relate(study)[1].filter(now), stats.means_by_work(study).filter(now)
    names = dict(stats.names(study).filter(now).select("dbms", "name").iter_rows())
    width = get_terminal_size().columns if sys.stdout.isatty() else 0
    if plans := show.other_plans(stats.plan_changes(study)):
        print("\n".join([*plans, ""]))
    print(show.answer_text(compared, means, names=names, width=width, **how))
    if text := show.versions_text(
        stats.by_version(study), every=how.get("every", False), markdown=how.get("markdown", False)
    ):
        print(f"\n{text}")
    for error in [refusal(study.card.study, changed)] if (changed := rebuilt_since(study.card, this_host())) else []:
        _say(str(error))
    return 0


def report(arguments: argparse.Namespace) -> Call:
    from rqps.store.read import place_of

    data, studies, checked = _data(arguments, _nearest()), arguments.study, arguments.check
    to_send = arguments.single_file or arguments.with_data or arguments.without_statements
    if len(studies) not in ((0, 1) if checked else (1,) if to_send else (1, 2)):
        fix = "name one study; two to compare them, without options such as --single-file; at most one with --check"
        raise RqpsError(f"report: {len(studies)} studies given", fix=fix)
    if checked and to_send:
        raise RqpsError("report: --check makes no pages", fix="leave out options for pages, such as --single-file")
    for study in studies:
        place_of(study, data)
    root = data if data.is_dir() else Path()  # a packed file needs no data folder
    if checked:
        named = Path(arguments.out or root / "report") / checked
        checked = named if named.exists() else checked
        if not checked.exists():
            fix = f"name the folder of a report or its file, or make one: rqps report {checked.name}"
            raise RqpsError(f"{checked}: there is no report, neither here nor in {named.parent}", fix=fix)

    def call() -> int:
        from rqps.report import build, one_file, two_studies
        from rqps.store.packing import pack

        if checked:
            return _check(checked, next(iter(studies), None), root)
        first, *second = studies
        if second:
            page, in_common = two_studies(first, second[0], root, arguments.out)
            return _print(f"{in_common}\nthe page: {page}")
        with ExitStack() as until_built:
            if arguments.without_statements:
                folder = Path(until_built.enter_context(TemporaryDirectory(prefix="rqps-")))
                [packed] = pack(place_of(first, data), folder / "packed.rqps", with_statements=False)
                first = str(packed)
            index = build(first, root, arguments.out, with_data=arguments.with_data)
        return _print(f"the page: {one_file(index.parent) if arguments.single_file else index}")

    return call


def _check(path: Path, study: str | None, data: Path) -> int:
    from rqps.report import check

    pages, differences, unchecked = check(path, study, data)
    if unchecked:
        more = f" and {len(unchecked) - 3} more" if len(unchecked) > 3 else ""
        _say(f"not compared, since these pages need other data: {', '.join(unchecked[:3])}{more}")
    if differences:
        _print("\n".join(differences))
        return FAILED
    return _print(f"{path}: every number on {pages} pages agrees with the data")


def import_(arguments: argparse.Namespace) -> Call:
    from rqps.published.importing import Asked, import_study

    renames = dict(word.partition("=")[::2] for word in arguments.as_)
    if wrong := [word for word in arguments.as_ if not all(word.partition("="))]:
        raise RqpsError(f"--as {wrong[0]}: a name is missing", fix="write SOURCE=BUILD.CONFIG")
    if arguments.data:
        arguments.data.mkdir(parents=True, exist_ok=True)
    data = _data(arguments, _nearest())
    words = {name: getattr(arguments, name) for name in ("study", "question", "base", "host", "engine")}
    asked = Asked(tuple(map(Path, arguments.folders)), **words, renames=renames)
    return lambda: _print(import_study(asked, data).text)


def pack(arguments: argparse.Namespace) -> Call:
    from rqps.store.packing import pack, unpack
    from rqps.store.read import place_of

    data = _data(arguments, _nearest())
    place = place_of(arguments.study, data)

    def call() -> int:
        if arguments.unpack:
            made = unpack(place, arguments.out or data / "raw")
        else:
            made = pack(place, arguments.out, with_statements=not arguments.without_statements)
        return _print("\n".join(map(str, made)))

    return call


def investigate(arguments: argparse.Namespace) -> Call:
    from rqps.errors import instead
    from rqps.store import load

    data = _data(arguments, _nearest())
    study = load(arguments.study, data)
    question = {"step": arguments.step, "me": arguments.dbms}
    for column, name in (("step", arguments.step), ("dbms", arguments.dbms)):
        known = study.steps[column].unique(maintain_order=True).to_list()
        if name is not None and name not in known:
            fix = f"name a {column} of the study"
            raise RqpsError(f"{arguments.study}: no {column} {name!r}; {instead(name, known, f'{column}s')}", fix=fix)

    def call() -> int:
        from rqps.report.site import investigate

        given = {key: value for key, value in question.items() if value is not None}
        notebook, page = investigate(arguments.study, data, given)
        print(f"the page: {page}", flush=True)
        if not arguments.page:
            words = ["--LabApp.expose_app_in_browser=True"]  # lets the notebook's drop-down lists run the cells below
            words += ["--allow-root"] if os.geteuid() == 0 else []
            os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *words, str(notebook)])
        return 0

    return call


def _say(text: str) -> None:
    """Prints progress to stderr; only the answer goes to stdout."""
    print(printable(text), file=sys.stderr, flush=True)


def _print(text: str) -> int:
    print(printable(text))
    return 0
