"""The rooms of the library: data goes one way, each name is one idea, and docstrings say what a thing is."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARY = ROOT / "lib/rqps"
ROOMS = (
    ("errors",),
    ("terminal", "numbers", "scratch", "keeper"),
    ("notebook",),
    ("engines",),
    ("study", "finding"),
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


def cells_of_notebooks() -> dict[str, str]:
    """The code of each notebook."""
    notebooks = {path.name: json.loads(path.read_text()) for path in sorted((ROOT / "notebooks").glob("*/*.ipynb"))}
    cells = {name: [cell for cell in of["cells"] if cell["cell_type"] == "code"] for name, of in notebooks.items()}
    return {name: "\n".join("".join(cell["source"]) for cell in of) for name, of in cells.items()}


def room_of(path: Path) -> str:
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


def test_every_room_has_its_floor() -> None:
    existing = {room_of(path) for path in MODULES} - {"__init__"}
    assert existing == FLOOR.keys()


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
    results = [
        f"{place}: {name}"
        for path in MODULES
        if room_of(path) == "pages"
        for name, place in imported(path)
        if name.startswith("rqps.pages.") and name.split(".")[2] != path.relative_to(LIBRARY).parts[1]
    ]
    assert results == []


LONGEST_PAGE = 150


def test_a_page_needs_a_short_module_at_most() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in MODULES if room_of(path) == "pages"}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_PAGE} == {}


def test_one_module_decides_a_verdict() -> None:
    decides = re.compile(r"""pl\.lit\(["'](?:slower|faster|same|unsure)["']\)""")
    assert {str(path.relative_to(LIBRARY)) for path in MODULES if decides.search(path.read_text())} <= {
        "stats/verdict.py"
    }


FORMATS_A_NUMBER = re.compile(r":[-+,<>^\d]*\.(?:\d+|\{\w+\})[efg%]\}")
HAVE_FORMATS = {
    "numbers.py": "where each kind of number has its format",
    "show/claims.py": "the digits of a claim in JSON",
    "show/flame/picture.py": "coordinates in SVG",
}


def test_one_module_formats_numbers() -> None:
    formats = {str(path.relative_to(LIBRARY)) for path in MODULES if FORMATS_A_NUMBER.search(path.read_text())}
    assert formats == HAVE_FORMATS.keys()


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
    r"""(?:\b(?:run|unit|dbms|base|metric|study|step|scenario)(?:["'][\])]+)?|\bkind["'][\])]+)(?:\.\w+)?"""
    r"""\.(?:r?partition|r?split|startswith|endswith|remove\w+)\(|"""
    r"""col\("(?:run|unit|dbms|instead_of|study|mode|side|metric|step|kind|scenario)"\)\.str\.(?!join|replace\()|"""
    r""""-if-"|(?:build_and_config|known_dbms)\(|"""
    r"""["']/["'] (?:not )?in (?:\w+\.)?run\b"""
)
"""Code that takes a run's id, a dbms, a metric, a step or a scenario apart: what they stand for is in columns and
fields."""
WORDS_OF_ENGINES = re.compile(
    r"mysql|mariadb|innodb|myisam|performance_schema|perf_schema|rocksdb|db_bench|postgres|pgsql|\bpg_|binlog|buffer_pool",
    re.IGNORECASE,
)
OF_AN_ENGINE = (
    "engines/",
    "workloads/db_bench/",
    "workloads/point_lookups/",
    "published/",
    "pages/db_bench.py",
    "pages/insert_benchmark_report.py",
    "pages/perf_schema_instruments.py",
    "pages/perf_schema_overhead.py",
)
"""Folders and files that are about an engine, or about studies of one that others published."""
NAMES_AN_ENGINE = {
    "store/schemas.py": "a column of the table that only the insert benchmark has",
    "store/older.py": "the engine of older manifests, which named none, and its counters in older tables",
    "workloads/sysbench/parameters.py": "the engines that it can load",
    "workloads/sysbench/lua/dialect.lua": "the drivers of sysbench",
    "workloads/insert_benchmark/parameters.py": "the engines that it can load",
    "workloads/own/parameters.py": "the engines that it can load, and the programs that dump tables",
    "workloads/own/statement_log.py": "logs of statements, in the forms in which servers write them",
    "workloads/own/steps.py": "the same logs, in an error",
    "workloads/own/tables_file.py": "the first and last lines of dumps",
}


def test_an_engines_words_stand_where_they_belong() -> None:
    suffixes = (".py", ".js", ".css", ".yaml", ".html", ".lua", ".c")
    sources = [path for path in LIBRARY.rglob("*") if path.suffix in suffixes]
    assert len(sources) > 200
    named = {str(path.relative_to(LIBRARY)) for path in sources if WORDS_OF_ENGINES.search(path.read_text())}
    assert {name for name in named if not name.startswith(OF_AN_ENGINE)} == NAMES_AN_ENGINE.keys()


READS_NAMES = {
    "study/runs_file.py": "a dbms as runs.yaml writes it",
    "study/mistakes.py": "the same, where it may be wrong",
    "schedule/tries.py": "a dbms as a command names it",
    "schedule/one_run.py": "a dbms as a parameter of a run notebook names it",
    "experiment.py": "a dbms as a cell names it",
    "store/older.py": "older manifests and tables",
    "published/quoted.py": "names that others gave",
    "published/compare_published.py": "names that others gave",
    "published/readers/mytools_inserts.py": "names that others gave",
    "workloads/db_bench/db_bench_output.py": "a list of benchmarks, as an option of db_bench has it",
    "show/theme.py": "a hue by build and a shade by config: it says nothing",
}
READ_NAMES_OF_OTHERS = ["published_results.ipynb"]


def test_only_the_doors_take_a_name_apart() -> None:
    sources = {str(path.relative_to(LIBRARY)): path.read_text() for path in MODULES}
    assert {path for path, source in sources.items() if READS_A_NAME.search(source)} == READS_NAMES.keys()


def test_no_notebook_takes_a_name_of_ours_apart() -> None:
    named = [name for name, source in cells_of_notebooks().items() if READS_A_NAME.search(source)]
    assert named == READ_NAMES_OF_OTHERS


NAMES_NOTHING = {"each", "found", "there", "said", "told", "whole", "kept"}


def test_a_value_has_the_name_of_what_it_is() -> None:
    own = (path for folder in ("lib/rqps", "tests", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py")))
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in own} | cells_of_notebooks()
    unnamed = [
        f"{place}:{node.lineno}: {name}"
        for place, source in sources.items()
        for node in ast.walk(ast.parse(source))
        for name in (getattr(node, "id", None), getattr(node, "arg", None), getattr(node, "name", None))
        if isinstance(node, ast.Name | ast.arg | ast.FunctionDef | ast.ClassDef | ast.MatchAs)
        and isinstance(getattr(node, "ctx", ast.Store()), ast.Store)
        and name in NAMES_NOTHING
    ]
    assert unnamed == []
