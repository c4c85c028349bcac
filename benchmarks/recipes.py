"""Do the recipes of an engine reach the compiler? Configures a source tree once for each recipe, compiles nothing,
and reads the command of one file: compiler, optimization, frame pointers, instruction set, LTO and profile.

python benchmarks/recipes.py SOURCE --file sql/sql_parse.cc
python benchmarks/recipes.py SOURCE --file sql/sql_parse.cc --recipe "gcc o2" --recipe "gcc o3 lessps9"
"""

import argparse
import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rqps.engines.making.recipe import Recipe, recipe_of, unused_options

OPTIMIZATIONS = ("o3", "o2")
TWENTY = tuple(
    f"{compiler} {parts}"
    for parts in (
        *(f"{level}{more}" for level in OPTIMIZATIONS for more in ("", " native", " lto", " native lto")),
        "o3 pgo",
        "o3 lto pgo",
    )
    for compiler in ("gcc", "clang")
)
"""The recipes of the published builds of MySQL 8.0.28."""


def shown(command: list[str], recipe: Recipe) -> dict[str, str]:
    """What the command that compiles a file says: a later flag wins."""

    def last(*beginnings: str) -> str:
        return next((word for word in reversed(command) if word.startswith(beginnings)), "")

    pointers = last("-fno-omit-frame-pointer", "-fomit-frame-pointer")
    return {
        "compiler": recipe.compiler if Path(command[0]).name.startswith(("g++", "gcc", "clang")) else command[0],
        "optimization": last("-O"),
        "frame_pointers": "yes" if pointers == "-fno-omit-frame-pointer" else "no",
        "instruction_set": last("-march=").removeprefix("-march=") or "x86-64",
        "lto": "yes" if last("-flto", "-fno-lto").startswith("-flto") else "no",
        "pgo": "yes" if last("-fprofile-use") else "instrumented" if last("-fprofile-generate") else "no",
    }


def configured(recipe: Recipe, source: Path, folder: Path, file: str, flags: list[str]) -> list[str]:
    """The command that compiles a file, after the source was configured with these flags."""
    (build := folder / "build").mkdir(parents=True, exist_ok=True)
    both = [*recipe.flags(), *flags], [*recipe.link(), *flags]
    command = [*recipe.configure(source, build, folder / "installed", *both), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"configure failed:\n{done.stdout[-800:]}\n{done.stderr[-2000:]}")
    if unused := set(unused_options(done.stdout + done.stderr)) - {"CMAKE_EXPORT_COMPILE_COMMANDS"}:
        raise SystemExit(f"options that the build system does not know: {', '.join(unused)}")
    commands = json.loads((build / "compile_commands.json").read_text())
    return shlex.split(next(entry["command"] for entry in commands if entry["file"] == str(source / file)))


def without_profile(recipe: Recipe, folder: Path) -> None:
    """Puts an empty profile into the folder: clang compiles nothing with one that is missing."""
    (folder / "empty.proftext").write_text(":ir\n")
    if tool := recipe.path("llvm-profdata"):
        subprocess.run([tool, "merge", f"-output={folder}/merged.profdata", folder / "empty.proftext"], check=True)


def checked(words: str, asked: argparse.Namespace, place: Path) -> Iterator[bool]:
    """Configures by a recipe, for a profile both times, and prints what the compiler is told."""
    recipe = recipe_of(words, asked.engine, words.split())
    # Compiler and options decide the answers of most of configure's questions, which are asked once.
    folder = place / "-".join([recipe.compiler, *recipe.options()[len(recipe.base.options) :]])
    (profile := place / recipe.compiler).mkdir(exist_ok=True)
    without_profile(recipe, profile)
    expected = {fact: value for part in recipe.parts.values() for fact, value in part.expects.items()}
    for flags in recipe.profile_flags(profile) if recipe.profile else ([],):
        began = time.monotonic()
        facts = shown(configured(recipe, asked.source.resolve(), folder, asked.file, flags), recipe)
        collects = {"pgo": "instrumented"} if any("-generate" in flag for flag in flags) else {}
        wanted = {"lto": "no", "pgo": "no"} | expected | collects
        bad = [
            f"{fact} {facts[fact]}, not {value}" for fact, value in wanted.items() if facts.get(fact, value) != value
        ]
        if ("native" in recipe.parts) != (facts["instruction_set"] == "native"):
            bad.append(f"instruction_set {facts['instruction_set']}")
        took = f"{time.monotonic() - began:5.0f} s"
        print(f"{words:24} {', '.join(facts.values()):50} {took}  {'; '.join(bad) or 'as asked'}", flush=True)
        yield not bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="an unpacked source tree of an engine that CMake builds")
    parser.add_argument("--engine", default="mysql")
    parser.add_argument("--file", required=True, help="a source file, by its path in the tree")
    parser.add_argument("--recipe", action="append", help="in place of the twenty published recipes")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        fine = [recipe for words in asked.recipe or TWENTY for recipe in checked(words, asked, Path(place))]
    raise SystemExit(not all(fine))


if __name__ == "__main__":
    main()
