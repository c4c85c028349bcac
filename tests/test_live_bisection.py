"""Bisection of real builds: over commits of a checkout by counts, and over versions by duets."""

import re
import subprocess
from pathlib import Path

import pytest
import rqps
from child import Done, share_cache
from child import rqps as command
from live_study import Place
from rqps.engines import engine_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import cache_dir
from test_making import SUM

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]

RUNS = """
builds:
  old: {rocksdb: "6.11.4"}
  new: {rocksdb: "9.7.3"}
configs:
  small: {write_buffer_size: 100K, target_file_size_base: 100K, max_bytes_for_level_base: 400K}
studies:
  small:
    question: Which one changed it?
    workload: db-bench
    dbms: [old.small, new.small]
    base: old.small
    rounds: 4
    twin: false
    parameters:
      written_by: "6.11.4"
      steps: [readrandom]
      keys: 20000
      cache_mb: 64
      warmup_operations: 2000
      counted_operations: 2000
      seconds: 1
"""
STEP = "byrx.readrandom"
MAKE = "set -e; . ./release; cp $LIBRARY $PREFIX/"
"""The build command of the checkout: a commit is the release that its file names, or does not build."""


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.com")
    done = subprocess.run(["git", *author, *words], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, version: str | None, subject: str, in_a_read: str = "") -> str:
    """A commit whose build is a release; one without does not build. From it on, reads begin with `in_a_read`."""
    library: object = "/nowhere"
    if in_a_read:
        (folder / "slow.c").write_text(SLOW.replace("LOOPS", in_a_read))
        git(folder, "add", "slow.c")
    if version:
        spec = BuildSpec.model_validate({"rocksdb": version})
        library = engine_of(spec).locate("release", spec, print).program
    (folder / "release").write_text(f"LIBRARY={library}\n# {subject}\n")
    git(folder, "add", "release")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def bisect(place: Place, *words: str, step: str = STEP, code: int = 0) -> Done:
    done = command("bisect", "small", step, *words, cwd=place.path)
    assert done.returncode == code, done.stdout + done.stderr
    return done


SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>
void *rocksdb_get_pinned(void *db, void *options, const char *key, size_t size, char **error) {
    void *(*get)(void *, void *, const char *, size_t, char **) = dlsym(RTLD_NEXT, "rocksdb_get_pinned");
    LOOPS
    return get(db, options, key, size, error);
}
"""
LINK = """
set -e; . ./release
if [ -e slow.c ]; then
    cc -shared -fPIC slow.c -o $PREFIX/librocksdb.so -Wl,--no-as-needed $LIBRARY -Wl,-rpath,$(dirname $LIBRARY)
else
    cp $LIBRARY $PREFIX/
fi
"""
BURN = "for (volatile int i = 0; i < 2000; i++) {}"


def test_the_commit_that_did_it_is_found_by_duets_and_its_functions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One release throughout, whose reads sleep, since they would keep the CPUs busy; from one commit on, each burns
    2000 loops and sleeps longer. Of the two commits before that one, the first crashes in a read and the second does
    not come back from one."""
    place, checkout = Place(tmp_path / "place", RUNS), tmp_path / "checkout"
    checkout.mkdir()
    git(checkout, "init", "-q", "-b", "main")
    good = commit(checkout, "6.11.4", "as released", "usleep(100);")
    before = commit(checkout, "6.11.4", "words of a comment")
    crash = commit(checkout, "6.11.4", "crash in each read", "*(volatile int *)0 = 1;")
    hang = commit(checkout, "6.11.4", "read for ever", "for (;;) pause();")
    culprit = commit(checkout, "6.11.4", "burn before each read", f"{BURN} usleep(300);")
    bad = commit(checkout, "6.11.4", "more words")
    words = ("--good", good, "--bad", bad, "--checkout", str(checkout), "--make", LINK)
    (tmp_path / "sitecustomize.py").write_text("import rqps.workloads.db_bench.generator as g\ng.PATIENCE_S = 20\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = bisect(place, *words)
    assert f"{crash[:12]} is skipped: its run failed: " in done.stderr
    assert f"{hang[:12]} is skipped: its run failed: " in done.stderr
    assert f"one of {crash[:12]} to {culprit[:12]} brought −" in done.stdout
    assert f"against {before[:12]}\n" in done.stdout
    assert "instructions per operation, by function:" in done.stdout
    assert re.search(r"\+[\d,]+  rocksdb_get_pinned$", done.stdout, re.MULTILINE)
    assert f"{culprit[:12]} burn before each read: touches rocksdb_get_pinned" in done.stdout

    study = next((place.path / "data/raw").glob("study=small-bisect-*"))
    tries = [path.name for path in study.glob("**/run=*")]
    again = bisect(place, *words)
    assert again.stdout == done.stdout
    assert f"{hang[:12]} is skipped: its run failed before; remove {study}/failed/run=" in again.stderr
    assert [path.name for path in study.glob("**/run=*")] == tries, "nothing is measured or tried twice"

    assert "hold for this hour; for other hours, add --occasion in 2 other hours" in done.stdout
    another = bisect(place, *words, "--occasion").stdout
    assert "hold for these 2 hours; for other hours, add --occasion in 1 other hour" in another
    assert f"one of {crash[:12]} to {culprit[:12]} brought −" in another
    runs = rqps.load(study.name.removeprefix("study="), place.path / "data").runs.filter(occasion=2)
    ends_and_pair = [f"c{one[:12]}.small" for one in (good, before, culprit, bad)]
    assert sorted(runs["dbms"]) == sorted(4 * ends_and_pair), "only the result is measured again"
    assert bisect(place, *words).stdout == another, "without the option the search and its answer stay"


def test_the_commit_that_did_it_is_found_by_counts(tmp_path: Path) -> None:
    """Six commits on a branch that was merged, one that does not build; the checkout has a change of its own."""
    place, checkout = Place(tmp_path / "place", RUNS), tmp_path / "checkout"
    checkout.mkdir()
    git(checkout, "init", "-q", "-b", "main")
    good = commit(checkout, "6.11.4", "as released")
    commit(checkout, "6.11.4", "words of a comment")
    git(checkout, "checkout", "-q", "-b", "topic")
    commit(checkout, "6.11.4", "in a branch")
    git(checkout, "checkout", "-q", "main")
    git(checkout, "merge", "-q", "--no-ff", "-m", "merge topic", "topic")
    commit(checkout, None, "does not build")
    culprit = commit(checkout, "9.7.3", "GetImpl does more")
    commit(checkout, "9.7.3", "more words")
    (checkout / "release").write_text("not committed\n")

    words = ("--good", good, "--bad", "main", "--checkout", str(checkout), "--make", MAKE, "--count")
    done = bisect(place, *words)
    assert "1 changed file(s) are in no commit" in done.stderr
    assert (checkout / "release").read_text() == "not committed\n"
    assert "is skipped" in done.stderr
    assert "does not build" in done.stderr
    assert "one of " in done.stdout
    assert f"to {culprit[:12]} brought +" in done.stdout
    assert "instructions per operation, by function:" in done.stdout
    (study,) = (path.name.removeprefix("study=") for path in (place.path / "data/raw").glob("study=small-bisect-*"))
    measured = rqps.load(study, place.path / "data", mode="instructions").runs.height
    again = bisect(place, *words)
    assert again.stdout == done.stdout
    assert rqps.load(study, place.path / "data", mode="instructions").runs.height == measured, (
        "nothing is counted twice"
    )


CMAKE = """cmake_minimum_required(VERSION 3.10)
project(demo C)
foreach(option PORTABLE FAIL_ON_WARNINGS WITH_GFLAGS WITH_TESTS WITH_TOOLS WITH_CORE_TOOLS WITH_BENCHMARK_TOOLS)
  set(ignored ${${option}})
endforeach()
add_library(rocksdb-shared SHARED slow.c)
set_target_properties(rocksdb-shared PROPERTIES OUTPUT_NAME rocksdb)
target_link_libraries(rocksdb-shared PRIVATE -Wl,--no-as-needed LIBRARY -Wl,-rpath,FOLDER)
"""
"""A project that the recipes of RocksDB build: a release with a function of its own in front."""


def test_the_commit_that_did_it_is_built_by_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five commits; the third does not build, and from the fourth on each read burns 2000 loops before it."""
    place, checkout = Place(tmp_path / "place", RUNS), tmp_path / "checkout"
    checkout.mkdir()
    git(checkout, "init", "-q", "-b", "main")
    spec = BuildSpec.model_validate({"rocksdb": "6.11.4"})
    library = engine_of(spec).locate("release", spec, print).program
    (checkout / "CMakeLists.txt").write_text(
        CMAKE.replace("LIBRARY -W", f"{library} -W").replace("FOLDER", str(library.parent))
    )
    commits = []
    for number, loops in enumerate(["", "", "#error", BURN, BURN]):
        code = f"{SLOW.replace('LOOPS', loops)}int outside(int n) {{ return n + {number}; }}\n{SUM}"
        (checkout / "slow.c").write_text(code)
        git(checkout, "add", "-A")
        git(checkout, "commit", "-q", "-m", f"commit {number}")
        commits.append(git(checkout, "rev-parse", "HEAD")[:12])
    (tmp_path / "cache/made").mkdir(parents=True)
    share_cache(tmp_path / "cache", cache_dir())
    monkeypatch.setenv("RQPS_CACHE", str(tmp_path / "cache"))
    words = ("--good", commits[0], "--bad", "main", "--checkout", str(checkout), "--recipe", "gcc", "o2", "--count")
    done = bisect(place, *words)
    assert f"skipped: {commits[2]} commit 2 does not build: rocksdb-shared failed" in done.stderr
    assert f"one of {commits[2]} to {commits[3]} brought +" in done.stdout
    assert f"against {commits[1]}\n" in done.stdout
    assert re.search(r"\+[\d,]+  rocksdb_get_pinned$", done.stdout, re.MULTILINE)
    assert f"{commits[3]} commit 3: touches rocksdb_get_pinned" in done.stdout
    again = bisect(place, *words)
    assert again.stdout == done.stdout
    assert re.findall("building .*", again.stderr) == [f"building {commits[2]} commit 2"]


OF_TABLES = """
builds:
  pg18: {postgres: "18.0"}
  pg186: {postgres: "18.6"}
  without_compression: {path: PG12}
  without_json_array: {path: PG14}
configs:
  quick: {shared_buffers: 32MB, jit: false, fsync: false, max_connections: 20}
studies:
  small:
    question: Which one changed it?
    workload: own
    dbms: [pg18.quick, pg186.quick]
    base: pg18.quick
    not_counted: [pg18.quick, pg186.quick]
    rounds: 4
    parameters:
      tables: t.sql
      seconds: 1
      warmup_seconds: 0
      steps:
        array: >
          SELECT JSON_ARRAY(1), pg_sleep(CASE current_setting('server_version') WHEN '18.0' THEN 0.001 ELSE 0.003 END)
"""
"""A step that is slower after 18.0, and takes hardly any CPU. PostgreSQL 12 refuses its tables, and 14 the step."""
TABLES = "CREATE TABLE t (id INT PRIMARY KEY, a TEXT COMPRESSION pglz);\nINSERT INTO t VALUES (1, 'a');\n"


def installed(version: str, folder: Path) -> str:
    """A directory that says by its name what is in it, and promises no version."""
    spec = BuildSpec.model_validate({"postgres": version})
    (folder / version).mkdir()
    (place := folder / version / "postgres").symlink_to(engine_of(spec).locate("release", spec, print).directory)
    return str(place)


def test_releases_without_the_step_or_its_tables_are_skipped_and_no_ends(tmp_path: Path) -> None:
    builds = OF_TABLES.replace("PG12", installed("12.6", tmp_path)).replace("PG14", installed("14.0", tmp_path))
    place = Place(tmp_path, builds)
    (tmp_path / "t.sql").write_text(TABLES)
    refused = bisect(place, "--good", "14.0", "--bad", "18.6", step="array", code=1)
    assert "array: v14-0.quick and pg186.quick can't be compared: steps.array: v14-0.quick refuses" in refused.stderr
    assert "function json_array(integer) does not exist" in refused.stderr.partition("can't be compared")[2]
    assert "name two ends that can both do this step" in refused.stderr

    between = ("--builds", "without_compression", "without_json_array")
    done = bisect(place, "--good", "pg18", "--bad", "18.6", *between, step="array")
    words = " ".join(done.stderr.split())
    assert re.search(r"without_compression.quick is skipped: \S*t.sql, line 1: .* refused", words)
    assert re.search(r"without_json_array is skipped: its run failed: .*json_array\(integer\) does not exist", words)
    assert "one of without_compression to 18.6 brought −" in done.stdout
    assert "against 18.0\n" in done.stdout
    assert "no functions are named: the instructions of these two could not be counted" in done.stdout
