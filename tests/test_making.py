"""Builds from source: two projects of two files, one of CMake and one with a configure script, by gcc and clang."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from child import running_from, until
from pydantic import ValidationError
from releases import Site, digest, packed
from rqps.engines import engine_of, table
from rqps.engines.asked import BuildSpec
from rqps.engines.compiled import how_compiled
from rqps.engines.making import MADE, Making, make_it
from rqps.engines.making.recipe import recipe_of
from rqps.errors import RqpsError, no_room
from rqps.schedule import training
from rqps.schedule.run_folder import Busy
from rqps.study import read_runs_file
from rqps.workloads import PARAMETERS

pytestmark = pytest.mark.usefixtures("clang", "cache")

MAIN = """#include <stdio.h>
int outside(int n) { return n * 7; }
int sum(const int *x, int n);
int main(int n, char **a) {
  int x[64];
  for (int i = 0; i < 64; i++) x[i] = n * i;
  printf("%s  Ver 8.0.99 for Linux (%d)\\n", a[0], sum(x, 64) & 0);
  return 0;
}
"""
SUM = "int outside(int);\nint sum(const int *x, int n) { int s = 0; while (n--) s += x[n]; return s; }\n"
SUM += "".join(f"int more{n}(int *x, int m) {{ return outside(x[{n}]) + outside(m); }}\n" for n in range(20))
CMAKE = """cmake_minimum_required(VERSION 3.10)
project(demo C)
if(WITH_WORSE_CODE)
  add_compile_options(-O1)
endif()
add_executable(mysqld main.c sum.c)
"""
CONFIGURE = """#!/bin/sh
# Speaks as one of autoconf does.
prefix=/usr/local CC=cc here=$(dirname "$0")
for word in "$@"; do
  case "$word" in
    --prefix=*) prefix=${word#--prefix=} ;;
    --with-slow-link) slow='sleep 60;' ;;
    --*) unknown="$unknown $word" ;;
    *=*) name=${word%%=*}; value=${word#*=}; eval "$name=\\$value" ;;
  esac
done
echo "int main(void) { return 0; }" > conftest.c
$CC $CFLAGS -c conftest.c -o conftest.o 2> warnings
case "$CC" in *clang*) if [ -s warnings ]; then cat warnings; exit 1; fi ;; esac
[ -z "$unknown" ] || echo "configure: WARNING: unrecognized options:$unknown"
cat > Makefile <<END
install: mysqld
\tmkdir -p $prefix/bin
\tcp mysqld $prefix/bin
mysqld: main.o sum.o
\t$slow $CC $CFLAGS main.o sum.o $LDFLAGS -o mysqld
%.o: $here/%.c
\t$CC $CFLAGS -c $< -o $PWD/\\$@
END
"""
SYSTEMS: dict[str, dict[str, Any]] = {
    "cmake": {
        "system": "cmake",
        "targets": [[".", "mysqld"]],
        "linked": {"file": "mysqld", "target": [".", "mysqld"]},
        "server_files": ["mysqld"],
        "programs": {},
        "room_mb": 1,
    },
    "configure": {
        "system": "configure",
        "targets": [[".", "install"]],
        "linked": {"file": "mysqld", "target": [".", "mysqld"]},
        "programs": {"make": "make"},
        "room_mb": 1,
    },
}
PATCH = """--- a/sum.c
+++ b/sum.c
@@ -1 +1,2 @@
+// patched
 int outside(int);
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_in(tmp_path)


def project_in(place: Path) -> Path:
    (folder := place / "project").mkdir()
    files = {"main.c": MAIN, "sum.c": SUM, "CMakeLists.txt": CMAKE, "configure": CONFIGURE.replace("$<", "\\$<")}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "configure").chmod(0o755)
    return folder


def making(project: Path, recipe: str, system: str = "configure", **own: Any) -> Making:
    """The making of the project, whose engine is one that has a program of that name."""
    base: dict[str, Any] = {
        **SYSTEMS[system],
        **{key: own.pop(key) for key in ("options", "room_mb", "programs", "headers") if key in own},
    }
    words = recipe.split()
    spec = BuildSpec(mysql="8.0.99", source={"path": str(project)}, recipe=words, training=own.pop("training", None))
    of_recipe = recipe_of("builds.mine.recipe", "mysql", words, {"base": base, **own})
    return Making("mine", spec, of_recipe, f"{system}-{'-'.join(words)}")


def made(what: Making, text: list[str], **how: Any) -> Path:
    return make_it(what, text.append, jobs=2, **how)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("gcc o2", {"optimization": "-O2", "frame_pointers": "yes", "lto": "no", "pgo": "no"}),
        ("gcc o3 nofp lto", {"optimization": "-O3", "frame_pointers": "no", "lto": "yes"}),
        ("clang o2", {"optimization": "-O2", "frame_pointers": "yes"}),
        ("clang o3 native lto", {"optimization": "-O3", "instruction_set": "native", "lto": "yes"}),
    ],
)
def test_a_build_is_what_its_recipe_says(
    project: Path, messages: list[str], system: str, recipe: str, expected: dict[str, str]
) -> None:
    tree = made(what := making(project, recipe, system), messages)
    program = next(path for path in tree.rglob("mysqld"))
    facts = how_compiled(program)
    assert {name: facts[name] for name in expected} == expected
    assert facts["compiler"].startswith(recipe.split()[0])
    assert "Ver 8.0.99" in subprocess.run([program], capture_output=True, text=True).stdout
    assert json.loads((what.folder / MADE).read_text())["recipe"] == recipe.split()
    assert not what.work.exists()
    messages.clear()
    assert made(what, messages) == tree
    assert messages == []


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_profile_is_trained_and_used(project: Path, messages: list[str], system: str, compiler: str) -> None:
    def train(tree: Path) -> None:
        program = next(path for path in tree.rglob("mysqld"))
        assert how_compiled(program)["pgo"] == "instrumented"
        subprocess.run([program], check=True, stdout=subprocess.DEVNULL)

    tree = made(making(project, f"{compiler} o3 pgo", system, training="demo"), messages, train=train)
    facts = how_compiled(next(path for path in tree.rglob("mysqld")))
    assert (facts["pgo"], facts["optimization"]) == ("yes", "-O3")
    # gcc's profile has all functions, and clang's has those that the training ran.
    number = 23 if compiler == "gcc" else 2
    assert f"mine: 0 of {number} functions in the profile differ in this build" in messages
    assert compiler == "clang" or any(re.search(r"\b0 of \d files have no profile", line) for line in messages)


def test_a_training_that_leaves_no_profile_is_an_error(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o3 pgo", training="demo")
    with pytest.raises(RqpsError, match="the training under demo left no profile"):
        made(what, messages, train=lambda _: None)
    with pytest.raises(RqpsError, match="names no training study"):
        made(making(project, "gcc o3 pgo", "cmake"), messages)


def test_after_a_training_that_dies_the_first_build_is_not_compiled_again(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o3 pgo", training="demo")

    def die(tree: Path) -> None:
        raise RqpsError(f"the training of {tree.name} died")

    with pytest.raises(RqpsError, match="the training of installed died"):
        made(what, messages, train=die)
    compiled_at = (what.work / "build/main.o").stat().st_mtime_ns

    def train(tree: Path) -> None:
        assert (what.work / "build/main.o").stat().st_mtime_ns == compiled_at
        subprocess.run([tree / "bin/mysqld"], check=True, stdout=subprocess.DEVNULL)

    made(what, messages, train=train)


def test_a_training_waits_until_nothing_else_is_measured(
    messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "SECONDS_BETWEEN_TRIES", 0.0)
    outcomes: list[int | Busy] = [Busy("another is measuring"), Busy("another is measuring"), 0]

    def run() -> int:
        if isinstance(outcome := outcomes.pop(0), Busy):
            raise outcome
        return outcome

    assert training.when_free("mine", messages.append, run) == 0
    assert messages == ["mine: its training waits: another is measuring"]


def test_a_source_of_another_version_than_promised_is_refused(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o2")
    other = replace(what, spec=what.spec.model_copy(update={"mysql": "8.0.98"}))
    with pytest.raises(RqpsError, match=r"builds\.mine\.mysql: 8\.0\.98 is expected, but .* is 8\.0\.99"):
        made(other, messages)
    assert not what.tree.exists()


def test_a_profile_of_another_folder_is_an_error(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o3 pgo", training="demo")

    def train(tree: Path) -> None:
        subprocess.run([tree / "bin/mysqld"], check=True, stdout=subprocess.DEVNULL)
        for profile in [*(what.work / "profile").rglob("*.gcda")]:
            profile.rename(what.work / "profile" / f"elsewhere-{profile.name}")

    with pytest.raises(RqpsError, match="profile belongs to another build directory"):
        made(what, messages, train=train)
    assert not what.tree.exists()


PARTS = "int outside(int);\n" + "".join(
    f"static __attribute__((noinline)) int part{n}(int m) {{ return m > {n} ? outside(m) : m; }}\n" for n in range(9)
)
PARTS += f"int sum(const int *x, int n) {{ return x[0] + {' + '.join(f'part{n}(n)' for n in range(9))}; }}\n"


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("functions", [2, 9])
def test_a_profile_of_another_source_is_an_error(
    project: Path, messages: list[str], system: str, compiler: str, functions: int
) -> None:
    """The source changes between the training and the build that uses the profile."""
    (project / "sum.c").write_text(PARTS)
    what = making(project, f"{compiler} o3 pgo", system, training="demo")

    def train(tree: Path) -> None:
        subprocess.run([next(tree.rglob("mysqld"))], check=True, stdout=subprocess.DEVNULL)
        text = (source := what.work / "source/sum.c").read_text()
        for n in range(functions):
            text = text.replace(f"m > {n} ? outside(m)", f"m > {n} ? outside(m > 99 ? outside(1) : 0)")
        source.write_text("// another line\n" + text)

    misfits = f"{functions} of 12 functions in the profile differ in this build"
    if functions < 6:
        made(what, messages, train=train)
        assert f"mine: {misfits}" in messages
        return
    with pytest.raises(RqpsError, match=f"another source or another build directory: {misfits}") as error:
        made(what, messages, train=train)
    assert str(error.value.fix).startswith(f"remove {what.work}, then make the build again")
    assert not what.tree.exists()


def test_a_profile_of_another_folder_is_an_error_with_clang_too(
    tmp_path: Path, project: Path, messages: list[str]
) -> None:
    (project / "sum.c").write_text(PARTS)
    elsewhere = replace(making(project, "clang o3 pgo", training="demo"), key="elsewhere")
    what = making(project, "clang o3 pgo", training="demo")

    def of_elsewhere(tree: Path) -> None:
        subprocess.run([tree / "bin/mysqld"], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(elsewhere.work / "profile", tmp_path / "profile")

    def train(_: Path) -> None:
        shutil.copytree(tmp_path / "profile", what.work / "profile", dirs_exist_ok=True)

    made(elsewhere, messages, train=of_elsewhere)
    with pytest.raises(RqpsError, match="another build directory: 9 of 12 functions in the profile"):
        made(what, messages, train=train)


def test_a_build_without_a_record_of_its_flags_is_refused(project: Path, messages: list[str]) -> None:
    strip = "add_custom_command(TARGET mysqld POST_BUILD COMMAND strip -R .comment -R .GCC.command.line mysqld)\n"
    (project / "CMakeLists.txt").write_text(CMAKE + strip)
    what = making(project, "gcc o3 lto", "cmake")
    with pytest.raises(RqpsError, match="it does not show optimization, lto, compiler, so nothing can be read back"):
        made(what, messages)
    assert not what.tree.exists()


def test_a_build_that_is_not_as_asked_is_refused_with_both_values(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o2", "cmake", options=["-DWITH_WORSE_CODE=ON"])
    with pytest.raises(RqpsError, match="o2: optimization has to be -O2, and it shows -O1"):
        made(what, messages)
    assert not what.tree.exists()


@pytest.mark.parametrize(
    ("system", "option", "name"), [("cmake", "-DWITH_NOTHING=1", "WITH_NOTHING"), ("configure", "--less", "--less")]
)
def test_an_option_that_the_build_system_ignores_is_an_error(
    project: Path, messages: list[str], system: str, option: str, name: str
) -> None:
    with pytest.raises(RqpsError, match=f"the build system does not know {name}\n"):
        made(making(project, "gcc o2", system, options=[option]), messages)


def test_a_failed_build_shows_its_errors_and_goes_on_from_there(project: Path, messages: list[str]) -> None:
    (project / "sum.c").write_text("#include <not_there.h>\n" + SUM)
    what = making(project, "gcc o2")
    with pytest.raises(RqpsError, match=r"(?s)install failed.*fatal error: not_there.h: No such file"):
        made(what, messages)
    (what.work / "source/sum.c").write_text(SUM)
    made(what, messages)
    log = (what.folder / "make.log").read_text()
    assert log.count("-o " + str(what.work / "build/main.o")) == 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_time_left_is_shown_after_the_first_steps(
    project: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr("rqps.engines.making.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("rqps.engines.making.STEPS_FOR_AN_ESTIMATE", 1)
    made(making(project, "gcc o2", system), messages)
    steps = 3 if system == "cmake" else 2
    assert any(re.fullmatch(rf"mine: step 1 of {steps}, \S+ s left", line) for line in messages), messages


@pytest.mark.parametrize("fits", [True, False])
def test_a_patch_is_applied_where_it_fits(tmp_path: Path, project: Path, messages: list[str], fits: bool) -> None:
    (patch := tmp_path / "more.patch").write_text(PATCH if fits else PATCH.replace("outside", "inside"))
    what = making(project, "gcc o2 more", more={"about": "with a patch", "patch": str(patch)})
    if fits:
        made(what, messages)
        assert "patched" not in (project / "sum.c").read_text()
    else:
        with pytest.raises(RqpsError, match=r"more\.patch does not fit this source"):
            made(what, messages)


def test_a_part_may_replace_how_an_engine_is_built(project: Path, messages: list[str]) -> None:
    base = {**SYSTEMS["cmake"], "source_files": ["*.txt"]}
    tree = made(making(project, "gcc o2 older", older={"about": "by CMake", "base": base}), messages)
    assert {path.name for path in tree.iterdir()} == {"mysqld", "CMakeLists.txt"}


RUNS_FILE = read_runs_file(Path(__file__).parent.parent / "runs.yaml", PARAMETERS)
"""The builds that rqps comes with."""


@pytest.mark.parametrize("name", [name for name, spec in RUNS_FILE.builds.items() if spec.recipe])
def test_each_part_of_a_recipe_reaches_the_command_that_configures(name: str, tmp_path: Path) -> None:
    spec = RUNS_FILE.builds[name]
    assert spec.recipe is not None
    recipe = recipe_of(name, spec.engine, spec.recipe)
    (collect, _), folders = recipe.profile_flags(tmp_path), (tmp_path, tmp_path / "build", tmp_path / "installed")
    flags = [*recipe.flags(), *(collect if recipe.profile else ())]
    command = recipe.configure(*folders, flags, recipe.link())
    of_c = [word.partition("=")[2].split() for word in command if re.match(r"(-DCMAKE_C_|C)FLAGS(_RELEASE)?=", word)]
    for given, asked in (
        ("-O3", "o3"),
        ("-O2", "o2"),
        ("-march=native", "native"),
        ("-flto", "lto"),
        (f"-fprofile-generate={tmp_path}", "pgo"),
    ):
        assert {given in words for words in of_c} == {asked in spec.recipe}, (given, of_c)
    assert any(word.endswith((f"={spec.recipe[0]}", f"/{spec.recipe[0]}")) for word in command), command


def test_the_published_builds_are_twenty_recipes() -> None:
    named = {spec.recipe for name, spec in RUNS_FILE.builds.items() if name.startswith("my8028_")}
    assert len(named) == 20
    assert {words[0] for words in named if words} == {"gcc", "clang"}


SPIN = """static inline uint64_t random_64_fast() {
  /* A comment
  of two lines. */
  const uint64_t res = my_timer_cycles();
  return res != 0 ? res >> 5 : random_64();
}
"""


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("part", ["norndfast", "oldrnd"])
def test_a_patch_of_the_spin_loops_fits_releases_with_that_code(
    project: Path, messages: list[str], part: str, fits: bool
) -> None:
    header = project / "storage/innobase/include/ut0rnd.h"
    header.parent.mkdir(parents=True)
    header.write_text(SPIN if fits else SPIN.replace("my_timer_cycles", "ut_rnd_gen_ulint"))
    own = table("rqps.engines.mysql", "recipes")
    what = making(project, f"gcc o2 {part}", **{part: own[part]})
    if fits:
        made(what, messages)
        assert "my_timer_cycles" in header.read_text()
    else:
        with pytest.raises(RqpsError, match=rf"{part}\.patch does not fit this source"):
            made(what, messages)
        assert not what.tree.exists()


IN_A_CHILD = """
import sys
from pathlib import Path
import test_making as here
try:
    print(here.made(here.making(Path(sys.argv[1]), "gcc o2", options=sys.argv[2:]), []))
except KeyboardInterrupt:
    print("stopped")
"""


def child(project: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", IN_A_CHILD, str(project), *options]
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(command, env=tests, stdout=subprocess.PIPE, text=True)


def test_ctrl_c_while_linking_leaves_no_process_and_no_half_build(project: Path, messages: list[str]) -> None:
    what = making(project, "gcc o2", options=["--with-slow-link"])
    running = child(project, "--with-slow-link")
    log = what.work / "make.log"
    until(lambda: log.exists() and "sleep 60" in log.read_text(), patience_s=60)
    running.send_signal(signal.SIGINT)
    assert running.communicate()[0] == "stopped\n"
    until(lambda: not running_from(what.work), patience_s=30)
    assert not what.tree.exists()
    assert "-o mysqld" in log.read_text()
    assert not (what.work / "build/mysqld").exists(), log.read_text()
    made(making(project, "gcc o2"), messages)
    assert what.tree.is_dir()


def test_two_calls_at_once_make_one_build(project: Path) -> None:
    text: list[list[str]] = [[], []]
    calls = [threading.Thread(target=made, args=(making(project, "gcc o2"), lines)) for lines in text]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert making(project, "gcc o2").tree.is_dir()
    assert sum("MB" in line for lines in text for line in lines) == 1


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("gcc o2 ltoo", "unknown part 'ltoo'; did you mean 'lto'?"),
        ("o2", "names 0 compilers"),
        ("gcc clang o2", "names 2 compilers"),
    ],
)
def test_a_recipe_with_a_mistake_is_named(project: Path, recipe: str, message: str) -> None:
    with pytest.raises(RqpsError, match=re.escape(f"builds.mine.recipe: {message}")):
        making(project, recipe)


def test_what_is_missing_is_an_error_before_anything_begins(
    project: Path, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RqpsError, match="a build takes up to 1000000000000 MB") as full:
        made(making(project, "gcc o2", room_mb=10**12), messages)
    assert no_room(full.value.message), "a bisection ends here, and skips no commits for it"
    without = making(project, "gcc o2", programs={"bison-of-old": "bison"})
    assert "\n  missing: bison-of-old; apt install bison\n" in without.in_words()
    with pytest.raises(RqpsError, match="mine: this machine lacks bison-of-old") as error:
        made(without, messages)
    assert error.value.fix == "apt install bison"
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RqpsError, match="this machine lacks gcc"):
        made(making(project, "gcc o2", programs={}), messages)
    assert messages == []


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_header_that_is_missing_is_named_with_its_package(
    project: Path, messages: list[str], compiler: str
) -> None:
    headers = {"stdio.h": "libc6-dev", "of/old.h": "libold-dev"}
    of_part = {"about": "with more", "headers": {"more.h": "libmore-dev"}}
    what = making(project, f"{compiler} o2 more", headers=headers, more=of_part)
    with pytest.raises(RqpsError, match=r"mine: this machine lacks of/old\.h, more\.h\n") as error:
        made(what, messages)
    assert error.value.fix == "apt install libold-dev libmore-dev"


def test_cmake_needs_the_compiler_of_cxx_too(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (programs := tmp_path / "programs").mkdir()
    for name in ("gcc", "cmake", "ninja"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    assert making(project, "gcc o2", "cmake").recipe.missing("8.0.99") == {"g++": "g++"}


def test_later_releases_of_postgres_need_bison_and_flex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gcc", "make", "perl"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path))
    recipe = recipe_of("mine", "postgres", ["gcc", "o2"])
    assert recipe.missing("16.10") == recipe.missing(None) == {}
    assert recipe.missing("18.6") == {"bison": "bison", "flex": "flex"}


def real(project: Path, **more: Any) -> BuildSpec:
    return BuildSpec(postgres="15.18", source={"path": str(project)}, recipe=["gcc", "o2"], **more)


def git_in(folder: Path, *words: str) -> str:
    mine = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *mine, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_source_may_be_a_tarball_or_a_commit(project: Path, site: Site, messages: list[str]) -> None:
    content = packed({f"demo-1.0/{path.name}": path.read_bytes() for path in project.iterdir()})
    site.pages["/demo.tar.gz"] = content
    git_in(project, "init", "-q")
    git_in(project, "add", "-A")
    git_in(project, "commit", "-qm", "first")
    (project / "sum.c").write_text("a change after the commit")
    what = making(project, "gcc o2", "cmake")
    commit = git_in(project, "rev-parse", "HEAD")
    url = {"url": f"{site.url}/demo.tar.gz", "sha256": digest(content)}
    for source in (url, {"git": str(project), "commit": commit}):
        spec = BuildSpec(mysql="8.0.99", source=source, recipe=["gcc", "o2"])
        tree = made(replace(what, spec=spec, key=f"of-{'-'.join(source)}"), messages)
        assert "Ver 8.0.99" in subprocess.run([tree / "mysqld"], capture_output=True, text=True).stdout
    other = BuildSpec(mysql="8.0.99", source={**url, "sha256": "0" * 64}, recipe=["gcc", "o2"])
    with pytest.raises(RqpsError, match=f"its sha256 is {digest(content)}, not 0000"):
        made(replace(what, spec=other, key="damaged"), messages)
    lost = BuildSpec(mysql="8.0.99", source={"git": str(project), "commit": "0" * 40}, recipe=["gcc", "o2"])
    with pytest.raises(RqpsError, match=r"builds\.mine\.source\.git: ") as error:
        made(replace(what, spec=lost, key="lost"), messages)
    assert "a whole commit" in str(error.value.fix)


def test_another_source_or_recipe_is_another_build(project: Path) -> None:
    def git(*words: str) -> None:
        git_in(project, *words)

    keys = [Making.of("mine", real(project)).key]
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    keys.append(Making.of("mine", real(project)).key)
    assert ", with changes" not in Making.of("mine", real(project)).in_words()
    (project / "main.c").write_text(MAIN + "// changed\n")
    keys.append(Making.of("mine", real(project)).key)
    assert ", with changes of its own" in Making.of("mine", real(project)).in_words()
    keys.append(Making.of("mine", real(project).model_copy(update={"recipe": ("gcc", "o3")})).key)
    assert len(set(keys)) == 4


def test_another_compiler_makes_another_build(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Making.of("mine", real(project))
    before.tree.mkdir(parents=True)
    (before.folder / MADE).write_text(json.dumps({"name": "mine", "compiler": (was := before.recipe.version())}))
    (newer := tmp_path / "gcc").write_text("#!/bin/sh\necho gcc 99.1.0\n")
    newer.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    after = Making.of("mine", real(project))
    assert after.key != before.key
    with pytest.raises(RqpsError, match=rf"was made by {re.escape(was)}, and now the compiler is gcc 99\.1\.0\n"):
        engine_of(after.spec).source("mine", after.spec).fetch("mine", print)


def test_a_build_that_is_not_made_is_no_build_yet(project: Path, messages: list[str]) -> None:
    spec = real(project)
    source = engine_of(spec).source("mine", spec)
    assert source.present() is None
    with pytest.raises(RqpsError, match=r"builds\.mine: it is not made from its source yet\n") as error:
        source.fetch("mine", messages.append)
    assert error.value.fix == "rqps builds make mine, or rqps run with --make"
    missing = f"builds.mine.source.path: no such directory: {project}/nothing"
    with pytest.raises(RqpsError, match=re.escape(missing)):
        Making.of("mine", real(project / "nothing"))


def test_a_recipe_beside_a_path_is_a_promise(project: Path, tmp_path: Path, messages: list[str]) -> None:
    tree = made(making(project, "gcc o2"), messages)
    saved = BuildSpec(path=str(tree), mysql="8.0.99", recipe=["gcc", "o2"])
    assert engine_of(saved).locate("mine", saved, messages.append).compiled["optimization"] == "-O2"
    broken = saved.model_copy(update={"recipe": ("clang", "o3", "lto")})
    with pytest.raises(RqpsError) as error:
        engine_of(broken).locate("mine", broken, messages.append)
    for line in ("o3: optimization has to be -O3, and it shows -O2", "lto: lto has to be yes, and it shows no"):
        assert line in error.value.message
    assert "compiler has to be clang, and it shows gcc" in error.value.message
    copied = Path(shutil.copytree(tree, tmp_path / "stripped"))
    subprocess.run(["strip", "-R", ".comment", "-R", ".GCC.command.line", copied / "bin/mysqld"], check=True)
    unknown = broken.model_copy(update={"path": str(copied), "recipe": ("gcc", "o3")})
    engine_of(unknown).locate("mine", unknown, messages.append)  # what it does not show is no reason


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"source": {"path": "/x"}}, "a source is built by a recipe"),
        ({"recipe": ["gcc"]}, "a recipe goes with a source"),
        ({"path": "/x", "source": {"path": "/x"}, "recipe": ["gcc"]}, "not path and source"),
        ({"source": {"path": "/x", "commit": "0" * 40}, "recipe": ["gcc"]}, "path goes with nothing else"),
        ({"source": {"url": "https://x/y.tgz"}, "recipe": ["gcc"]}, "url goes with sha256"),
        ({"source": {"debian": "postgresql-15", "suite": "sid"}, "recipe": ["gcc"]}, "goes with suite and version"),
        ({"source": {}, "recipe": ["gcc"]}, "not none"),
        ({"path": "/x", "training": "demo"}, "training is for a build with source"),
    ],
)
def test_mistakes_in_a_build_with_a_source_are_explained(described: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BuildSpec.model_validate_json(json.dumps({**described, "postgres": "15.18"}))
