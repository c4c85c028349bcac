"""The rooms of the library: data goes one way, each name is one idea, and docstrings say what a thing is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARY = ROOT / "lib/rqps"
ROOMS = (
    ("errors",),
    ("terminal", "scratch", "keeper"),
    ("notebook",),
    ("engines",),
    ("study",),
    ("store",),
    ("workloads",),
    ("measure",),
    ("stats",),
    ("profile",),
    ("schedule",),
    ("hosts", "show"),
    ("published",),
    ("pages",),
    ("report",),
    ("overview", "experiment"),
    ("commands",),
    ("cli",),
)
"""From the ground up; rooms that stand side by side do not need each other."""
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
RIDDLES = {"apart", "told", "held", "bound", "twice", "ends"}
RIDDLES |= {"keep", "leads", "doubts", "light", "mending", "dearest"}
PLAYED_IN_EVERY_FOLDER = {"__init__", "build", "parameters", "steps", "workload", "generator"}
PLAYED_IN_EVERY_FOLDER |= {"engine", "dialect", "formulas", "tables", "charts", "sentences"}
"""Files that play the same part in sister folders."""
MODULES = sorted(path for path in LIBRARY.rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Each rqps module that a file imports, with the place of the import."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rqps":
            inside = [f"rqps.{alias.name}" for alias in node.names] if node.module == "rqps" else [str(node.module)]
        elif isinstance(node, ast.Import):
            inside = [alias.name for alias in node.names if alias.name.startswith("rqps.")]
        else:
            continue
        yield from ((name, f"{path.relative_to(ROOT)}:{node.lineno}") for name in inside)


def room_of(path: Path) -> str:
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


def test_every_room_has_its_floor() -> None:
    there = {room_of(path) for path in MODULES} - {"__init__"}
    assert there == FLOOR.keys()


def test_no_room_needs_one_above_or_beside_it() -> None:
    arrows = [
        (room_of(path), name.split(".")[1], place)
        for path in MODULES
        for name, place in imported(path)
        if path != LIBRARY / "__init__.py"  # the door of the library opens what is behind it
    ]
    up = [
        f"{place}: {room} needs {other}"
        for room, other, place in arrows
        if other in FLOOR and other != room and FLOOR[other] >= FLOOR[room]
    ]
    assert up == []


def test_a_page_needs_no_other_page() -> None:
    found = [
        f"{place}: {name}"
        for path in MODULES
        if room_of(path) == "pages"
        for name, place in imported(path)
        if name.startswith("rqps.pages.") and name.split(".")[2] != path.relative_to(LIBRARY).parts[1]
    ]
    assert found == []


def test_one_module_decides_a_verdict() -> None:
    decides = re.compile(r"""pl\.lit\(["'](?:slower|faster|same|unsure)["']\)""")
    assert {str(path.relative_to(LIBRARY)) for path in MODULES if decides.search(path.read_text())} <= {
        "stats/verdict.py"
    }


def test_no_two_modules_share_a_name_and_none_is_a_riddle() -> None:
    names = [path.stem for path in MODULES]
    assert {name for name in names if names.count(name) > 1} <= PLAYED_IN_EVERY_FOLDER
    assert RIDDLES.isdisjoint(names)


def test_docstrings_say_what_a_thing_is_or_does() -> None:
    question = re.compile(r"(?:What|Whether|How|Where|Who|Whom|Why|Of|By|Up to|In which|From which)\b")
    asked = [
        f"{path.relative_to(LIBRARY)}:{node.lineno}: {node.value.value.splitlines()[0]}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if question.match(node.value.value.strip())
    ]
    assert asked == []


READS_A_NAME = re.compile(
    r"""\brun(?:["'\]])?(?:\.run)?\.(?:partition|split|startswith|endswith)\(|col\("(?:run|unit|dbms)"\)\.str\.(?!join)|"-if-"|"""
    r"""["']/["'] (?:not )?in (?:\w+\.)?run\b|dbms\.(?:partition|split)\(|base\.partition\("""
)
"""Code that takes a run's id or a dbms apart: what they stand for is in columns and fields."""
WORDS_OF_ENGINES = re.compile(
    r"mysql|mariadb|innodb|myisam|performance_schema|perf_schema|rocksdb|db_bench|postgres|buffer_pool", re.IGNORECASE
)
ABOUT_ENGINES = ("engines", "workloads", "pages", "published")
"""Rooms in which an engine's words may stand."""
NAMES_AN_ENGINE = {
    "store/schemas.py": "a column of the table that only the insert benchmark has",
    "store/manifest.py": "the engine of older manifests, which named none",
}


def test_an_engines_words_stand_where_they_belong() -> None:
    suffixes = (".py", ".js", ".css", ".yaml", ".html")
    elsewhere = [
        path for path in LIBRARY.rglob("*") if path.suffix in suffixes and room_of(path) not in ABOUT_ENGINES
    ]
    assert len(elsewhere) > 100
    found = {str(path.relative_to(LIBRARY)) for path in elsewhere if WORDS_OF_ENGINES.search(path.read_text())}
    assert found <= NAMES_AN_ENGINE.keys()


READS_NAMES = {
    "study/unfold.py": "a dbms as runs.yaml writes it",
    "study/mistakes.py": "the same, where it may be wrong",
    "store/manifest.py": "the ids of older manifests",
    "published/quoted.py": "names that others gave",
}


def test_only_the_doors_take_a_name_apart() -> None:
    found = {str(path.relative_to(LIBRARY)) for path in MODULES if READS_A_NAME.search(path.read_text())}
    assert found <= READS_NAMES.keys()


NAMES_NOTHING = {"each", "found", "there", "said", "told", "whole", "kept"}


def test_a_value_has_the_name_of_what_it_is() -> None:
    unnamed = [
        f"{path.relative_to(LIBRARY)}:{node.lineno}: {name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (getattr(node, "id", None), getattr(node, "arg", None), getattr(node, "name", None))
        if isinstance(node, ast.Name | ast.arg | ast.FunctionDef | ast.ClassDef | ast.MatchAs)
        and isinstance(getattr(node, "ctx", ast.Store()), ast.Store)
        and name in NAMES_NOTHING
    ]
    assert unnamed == []
