"""What README and docs show exists and works: commands, links, the study that they write out, tables, words."""

import ast
import inspect
import re
import shlex
import subprocess
from pathlib import Path

import polars as pl
import pytest
import rqps
from rqps.cli import _parser
from rqps.engines.sources import catalogue
from rqps.store.schemas import TABLES
from rqps.study import on_host, read_runs_file, unfold
from rqps.workloads import PARAMETERS
from test_rooms import FLOOR

ROOT = Path(__file__).parent.parent
PAGES = [
    path for path in ROOT.glob("**/*.md") if not any(part.startswith(".") for part in path.parts[len(ROOT.parts) :])
]
README = ROOT / "README.md"
GUIDES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(guide.read_text() for guide in GUIDES)
LONGEST_README = 160


def blocks(language: str, guide: Path | None = None) -> list[str]:
    """The blocks of one guide, or of all, that are written in a language."""
    text = TEXT if guide is None else guide.read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


COMMANDS = sorted({line for block in blocks("sh") for line in block.replace("\\\n", "").splitlines()})


def made_by_make() -> set[str]:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return set(re.findall(r"^  make (\w+)", shown, flags=re.MULTILINE))


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len(README.read_text().splitlines()) <= LONGEST_README


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guides_exists(command: str) -> None:
    program, *arguments = shlex.split(command, comments=True)
    if program == "make":
        assert set(arguments) <= made_by_make()
    else:
        assert program == ".venv/bin/rqps"
        _parser().parse_args(arguments)


def test_the_targets_named_in_the_text_exist_and_can_be_made() -> None:
    named = {*re.findall(r"`make (\w+)`", TEXT), *made_by_make()} - {"install"}
    assert named == made_by_make()
    for target in named:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_the_study_of_the_guides_can_be_planned(tmp_path: Path) -> None:
    [written], [with_hosts] = (blocks("yaml", ROOT / f"docs/{name}.md") for name in ("first-study", "hosts"))
    of_hosts, more = with_hosts.split("studies:\n")
    (tmp_path / "runs.yaml").write_text(of_hosts + written + more)
    runs_file = read_runs_file(tmp_path / "runs.yaml", PARAMETERS)
    study, everywhere = runs_file.studies
    by_host = {host: on_host(runs_file, everywhere, host) for host in runs_file.studies[everywhere].hosts}
    rows = {host: file.studies[everywhere].parameters.model_dump()["table_rows"] for host, file in by_host.items()}
    assert rows == {"big": 10_000_000, "small": 1_000_000}
    assert f".venv/bin/rqps plan {study}" in COMMANDS
    assert len(unfold(runs_file, study, "here")) == 6


def test_the_example_in_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQPS_DATA", str(ROOT / "data"))
    (example,) = (block for block in blocks("python", README) if "rqps.load" in block)
    *first, last = example.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(first), names)
    shown = eval(last, names)
    assert isinstance(shown, pl.DataFrame)
    assert shown.height > 0


def test_the_what_ifs_of_the_readme_name_what_is_there() -> None:
    (examples,) = (block for block in blocks("python", README) if "rqps.what_if" in block)
    study = rqps.load("where-did-it-go", ROOT / "data")
    calls = [one for one in ast.walk(ast.parse(examples)) if isinstance(one, ast.Call)]
    for call in calls:
        given = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        assert given["step"] in set(study.steps["step"])
        assert given.get("base", study.card.base) in study.card.dbms
        assert given.keys() <= set(inspect.signature(rqps.what_if).parameters)


def test_the_table_of_files_has_every_table_and_no_other_column() -> None:
    described = dict(re.findall(r"^\| `(\w+)\.parquet` \|(.*)$", TEXT, flags=re.MULTILINE))
    assert described.keys() == TABLES.keys()
    for name, text in described.items():
        columns = re.findall(r"`(…?)(\w+)`", text)
        assert [
            part for start, part in columns if not any(c.endswith(part) if start else c == part for c in TABLES[name])
        ] == []


def test_every_analysis_notebook_is_listed() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/notebooks.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "notebooks/analysis").glob("*.ipynb"))


def test_every_version_of_the_catalogue_is_named() -> None:
    assert [version for version in catalogue("mysql") if version not in TEXT] == []


def test_each_promise_has_a_test_of_that_name() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (ROOT / "docs/promises.md").read_text())
    assert named
    assert [
        f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / "tests" / file).read_text()
    ] == []


def test_the_picture_of_the_rooms_has_all_of_them() -> None:
    drawn = re.findall(r'font-weight="bold"[^>]*>(\w+)<', (ROOT / "docs/rooms.svg").read_text())
    assert sorted(drawn) == sorted(FLOOR), "draw it again: python tests/draw_rooms.py"
