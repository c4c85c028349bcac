"""Real servers that rqps builds from their source: it takes minutes where they were not made before."""

import subprocess
from pathlib import Path

import pytest
from rqps.engines import Option, engine_of
from rqps.engines.making import Making, tree
from rqps.engines.postgres.build import Build
from rqps.engines.postgres.engine import prepare
from rqps.engines.postgres.unprivileged import server_user
from rqps.errors import RqpsError
from rqps.schedule.run_study import LocalRunner
from rqps.schedule.training import make_builds
from rqps.scratch import Scratch
from rqps.study import RunsFile, read_runs_file
from rqps.workloads import PARAMETERS
from test_live_postgres import Dbms

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.live
NAMES = ["pg15_gcc_o2", "pg15_clang_o2"]


@pytest.fixture(scope="module")
def runs_file(tmp_path_factory: pytest.TempPathFactory) -> RunsFile:
    """Our own runs.yaml, if the source of its builds can be had."""
    runs_file = read_runs_file(ROOT / "runs.yaml", PARAMETERS)
    source = runs_file.builds[NAMES[0]].made_from
    assert source is not None
    try:
        tree.put_into(NAMES[0], source, tmp_path_factory.mktemp("source") / "tree", print)
    except RqpsError as error:
        pytest.skip(f"its source can't be had here: {error.message}")
    return runs_file


@pytest.mark.usefixtures("clang")
@pytest.mark.parametrize("name", NAMES)
def test_a_server_is_built_from_source_and_makes_a_database(
    name: str, runs_file: RunsFile, messages: list[str]
) -> None:
    spec = runs_file.builds[name]
    make_builds(runs_file, [(name, spec)], LocalRunner(ROOT / "notebooks", ROOT / "runs.yaml"), messages.append)
    build = engine_of(spec).locate(name, spec, messages.append)
    assert isinstance(build, Build)
    assert build.version == "15.18"
    facts = {name: build.compiled[name] for name in ("optimization", "frame_pointers", "lto", "pgo", "allocator")}
    expected = {"optimization": "-O2", "frame_pointers": "yes", "lto": "no", "pgo": "no", "allocator": "libc"}
    assert facts == expected
    assert build.compiled["compiler"].startswith(name.split("_")[1])
    assert build.program.is_relative_to(Making.of(name, spec).tree)
    with Scratch() as folder:
        user = server_user()
        if user:
            user.own(folder)
        command = [
            *(user.prefix if user else ()),
            str(build.program.with_name("initdb")),
            "-D",
            str(folder / "data"),
            "--no-sync",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (folder / "data/PG_VERSION").read_text() == "15\n"
    icu = {"locale_provider": Option("icu"), "icu_locale": Option("en-US")}
    with pytest.raises(RqpsError, match="ICU is not supported in this build") as raised:
        prepare(Dbms("15.18", icu, spec=spec), messages.append)
    assert "--locale-provider=icu --icu-locale=en-US" in str(raised.value)
