"""Real servers that rqps builds from their source: it takes minutes where they were not made before."""

import subprocess
from pathlib import Path

import pytest
from rqps.engines import engine_of
from rqps.engines.making import Making, tree
from rqps.engines.postgres.build import Build
from rqps.engines.postgres.unprivileged import server_user
from rqps.errors import RqpsError
from rqps.schedule.run_study import LocalRunner
from rqps.schedule.training import make_builds
from rqps.scratch import Scratch
from rqps.study import read_runs_file
from rqps.workloads import PARAMETERS

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.live


@pytest.mark.usefixtures("clang")
@pytest.mark.parametrize("name", ["pg15_gcc_o2", "pg15_clang_o2"])
def test_a_server_is_built_from_source_and_makes_a_database(name: str, messages: list[str], tmp_path: Path) -> None:
    runs_file = read_runs_file(ROOT / "runs.yaml", PARAMETERS)
    spec = runs_file.builds[name]
    assert spec.made_from is not None
    try:
        tree.put_into(name, spec.made_from, tmp_path / "source", messages.append)
    except RqpsError as error:
        pytest.skip(f"its source can't be had here: {error.message}")
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
