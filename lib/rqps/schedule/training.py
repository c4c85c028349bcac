"""Makes builds from source. For profile-guided optimization, runs an instrumented build under the load of a study."""

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path

from rqps.engines import Say
from rqps.engines.asked import BuildSpec
from rqps.engines.making import Making, make_it
from rqps.errors import RqpsError
from rqps.schedule.run_folder import Busy
from rqps.schedule.run_study import LocalRunner, run_study
from rqps.scratch import Scratch
from rqps.study import PROFILES, RunsFile, study_of

SECONDS_BETWEEN_TRIES = 2.0
JOBS = len(os.sched_getaffinity(0))


def make_builds(
    runs_file: RunsFile,
    builds: Iterable[tuple[str, BuildSpec]],
    runner: LocalRunner,
    say: Say,
    *,
    jobs: int = JOBS,
    niceness: int = 10,
) -> None:
    """Makes these builds, and layouts of them, from source, unless they exist. Before the first build begins, reports
    what each build needs, and raises an RqpsError if anything is missing."""
    makings = [Making.of(name, spec) for name, spec in builds]
    first = {making.in_first_order.tree: making.in_first_order for making in makings}
    for making in (making for tree, making in first.items() if not tree.is_dir()):
        say(making.in_words())
        making.refuse_what_is_missing()
        if making.spec.training is not None:
            study_of(runs_file, making.spec.training)
    for making in makings:
        tree = make_it(
            making, say, jobs=jobs, niceness=niceness, train=partial(train, runs_file, making.name, runner, say)
        )
        say(f"{making.name}: in {tree}")


def train(runs_file: RunsFile, name: str, runner: LocalRunner, say: Say, tree: Path) -> None:
    """Runs one round of a build's training study, with the config of the study's base; keeps no measurements. Waits
    until no other measurement runs on this host."""
    build = runs_file.builds[name]
    study = study_of(runs_file, training := str(build.training))
    dbms = f"{name}.{study.named[study.base].config}"
    collecting = BuildSpec.model_validate({"path": str(tree), build.engine: build.version})
    once = {"dbms": (dbms,), "base": dbms, "rounds": 1, "budget": None, "occasions": 1, "twin": False}
    once |= {"hosts": (), "method": "rounds", "measure_parts_of": None, "layouts": None, **dict.fromkeys(PROFILES, 0)}
    alone = runs_file.model_copy(
        update={"builds": {name: collecting}, "studies": {training: study.model_copy(update=once)}}
    )
    with Scratch() as folder:
        if when_free(name, say, partial(run_study, alone, training, data=folder, runner=runner)) != 0:
            fix = f"find the error with: rqps run {training}"
            raise RqpsError(f"builds.{name}: the training under {training} failed", fix=fix)


def when_free(name: str, say: Say, run: Callable[[], int]) -> int:
    """Runs a measurement once no other measurement runs on this host."""
    for tries in count():
        try:
            return run()
        except Busy as error:
            if tries == 0:
                say(f"{name}: its training waits: {error.message}")
            time.sleep(SECONDS_BETWEEN_TRIES)
    raise AssertionError
