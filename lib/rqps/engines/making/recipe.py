"""Recipes: the flags and options that each part of a recipe adds for compiler, linker and build system."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from rqps.engines import Strict, table
from rqps.engines.compiled import UNKNOWN
from rqps.engines.sources.programs import answer_of
from rqps.errors import RqpsError, instead

Compilers = Literal["gcc", "clang"]
RECORDED = {"gcc": ("-g1", "-frecord-gcc-switches"), "clang": ("-g1", "-gdwarf-4", "-frecord-command-line")}
"""Flags of every build: they record the compiler's flags in the program, and add no code. Without -gdwarf-4, valgrind
3.19 does not start programs that clang 14 compiled."""
PACKAGES = {
    **{"gcc": "gcc", "clang": "clang", "ld.lld": "lld", "ld.gold": "binutils"},
    **{"llvm-profdata": "llvm", "ninja": "ninja-build", "g++": "g++", "clang++": "clang"},
}


class ForCompiler(Strict):
    """Flags and programs that a part adds for one compiler."""

    flags: list[str] = Field(default_factory=list)
    link: list[str] = Field(default_factory=list)
    programs: list[str] = Field(default_factory=list)
    order: str = ""
    """The linker's option that names the order file, `{file}`: a list of functions in the order to link."""
    order_lines: list[str] = Field(default_factory=list)
    """Templates of the lines that one function gets in the order file; `{name}` stands for its name."""


class Linked(Strict):
    """The program that is linked again for another layout."""

    file: str
    """A glob in the build tree that matches only the program's file, and no link to it."""
    target: list[str]
    """The call of make that links the program: a folder and a target, as in `targets`."""


class Base(Strict):
    """The settings of an engine's build that all its recipes share."""

    system: Literal["configure", "cmake"]
    options: list[str] = Field(default_factory=list)
    targets: list[list[str]] = Field(min_length=1)
    """Calls of make, each with a folder of the build tree and a target. With CMake the folder is `.`."""
    linked: Linked
    collecting: list[str] = Field(default_factory=list)
    """Further arguments of make for a build that collects a PGO profile."""
    server_files: list[str] = Field(default_factory=list)
    """Globs of the files in the build tree that a server needs; empty if the targets install the server."""
    source_files: list[str] = Field(default_factory=list)
    """Globs of the files in the source tree that a server needs."""
    programs: dict[str, str]
    """Maps each program that has to be on PATH to its Debian package."""
    programs_from: dict[int, dict[str, str]] = Field(default_factory=dict)
    """Further programs, as in `programs`, that releases from a major version on need."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Maps each C header that has to be on this machine to its Debian package."""
    room_mb: int
    """Disk space in MB that a build takes, with its source and objects."""


class Part(Strict):
    """A part of a recipe, as a recipes.yaml describes it."""

    about: str
    compiler: Compilers | None = None
    flags: list[str] = Field(default_factory=list)
    link: list[str] = Field(default_factory=list)
    options: list[str] = Field(default_factory=list)
    """Options for the engine's build system. `{source}` in an option is the root of the source tree."""
    headers: dict[str, str] = Field(default_factory=dict)
    """C headers that this part needs, as in `Base`."""
    of_compiler: dict[Compilers, ForCompiler] = Field(default_factory=dict)
    profile: bool = False
    base: Base | None = None
    """Replaces the engine's own `base`, for releases that are built in another way."""
    patch: str = ""
    """A patch file beside the engine's recipes.yaml, for `patch -p1`."""
    expects: dict[str, str] = Field(default_factory=dict)
    """Maps facts about the program, such as its compiler, to the values that they must have."""
    differs: dict[str, str] = Field(default_factory=dict)
    """Maps facts about the program to values that they must not have."""


@dataclass(frozen=True)
class Recipe:
    """The parts of a recipe, put together for the compiler of this machine."""

    base: Base
    parts: dict[str, Part]
    compiler: Compilers
    patches: tuple[Path, ...] = ()

    @property
    def profile(self) -> bool:
        return any(part.profile for part in self.parts.values())

    def flags(self) -> list[str]:
        own = [flag for part in self.parts.values() for flag in [*part.flags, *self._of(part).flags]]
        return [*RECORDED[self.compiler], *own]

    def link(self) -> list[str]:
        return [flag for part in self.parts.values() for flag in [*part.link, *self._of(part).link]]

    def order_options(self, file: Path) -> list[str]:
        """The linker's options for the order of the functions; empty if no part of the recipe puts functions into
        sections."""
        orders = (self._of(part).order for part in self.parts.values())
        return [order.replace("{file}", str(file)) for order in orders if order]

    def order_text(self, names: Sequence[str]) -> str:
        """The text of the file with the order of the functions."""
        forms = [form for part in self.parts.values() for form in self._of(part).order_lines]
        return "".join(f"{form.replace('{name}', name)}\n" for name in names for form in forms)

    def options(self) -> list[str]:
        return [*self.base.options, *(option for part in self.parts.values() for option in part.options)]

    def profile_flags(self, folder: Path) -> tuple[list[str], list[str]]:
        """The flags of the two builds for PGO: the first collects a profile in `folder`, the second uses it."""
        collect = [f"-fprofile-generate={folder}"]
        if self.compiler == "clang":
            # The `main` of configure's test programs does not fit the profile. clang would warn of this, and
            # configure would take the warning for a failed test.
            return collect, [f"-fprofile-use={folder}/merged.profdata", "-Wno-backend-plugin"]
        use = [f"-fprofile-use={folder}", "-fprofile-correction", "-fprofile-partial-training"]
        # By default gcc stops at the first function that changed after the training.
        warn = ["-Wmissing-profile", "-Wno-error=coverage-mismatch"]
        return [*collect, "-fprofile-update=prefer-atomic"], [*use, *warn]

    def configure(
        self, source: Path, build: Path, prefix: Path, flags: Sequence[str], link: Sequence[str]
    ) -> list[str]:
        """The command line that configures a source tree in the folder `build`."""
        cxx = str(self._cxx(c := str(self.path(self.compiler))))
        kind = "gcc-" if self.compiler == "gcc" else "llvm-"
        tools = {tool.upper(): self.path(f"{kind}{tool}") for tool in ("ar", "ranlib", "nm")}
        tools = {tool: path for tool, path in tools.items() if path}
        options = [option.replace("{source}", str(source)) for option in self.options()]
        compiled, linked = shlex.join(flags), shlex.join(link)
        if self.base.system == "configure":
            values = {"CC": c, "CXX": cxx, "CFLAGS": compiled, "CXXFLAGS": compiled, "LDFLAGS": linked, **tools}
            settings = [f"{name}={value}" for name, value in values.items()]
            return [f"{source}/configure", f"--prefix={prefix}", *options, *settings]
        values = {
            **{"CMAKE_BUILD_TYPE": "Release", "CMAKE_C_COMPILER": c, "CMAKE_CXX_COMPILER": cxx},
            **{f"CMAKE_{language}_FLAGS": compiled for language in ("C", "CXX")},
            # These repeat the flags, since a project may append its own to CMAKE_C_FLAGS, and the last flag wins.
            **{f"CMAKE_{language}_FLAGS_RELEASE": f"{compiled} -DNDEBUG" for language in ("C", "CXX")},
            **{f"CMAKE_{kind}_LINKER_FLAGS": linked for kind in ("EXE", "SHARED", "MODULE") if linked},
            **{f"CMAKE_{tool}": path for tool, path in tools.items()},
        }
        defined = [f"-D{name}={value}" for name, value in values.items()]
        return ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), *options, *defined]

    def _cxx(self, c: str) -> Path:
        """The path of the C++ compiler beside the C compiler at the path `c`."""
        of_cxx = "g++" if self.compiler == "gcc" else "clang++"
        return Path(c).with_name(Path(c).name.replace(self.compiler, of_cxx))

    def _of(self, part: Part) -> ForCompiler:
        return part.of_compiler.get(self.compiler, ForCompiler())

    def identity(self) -> list[Any]:
        """All values that decide which program is built: another build system, flag, patch or compiler changes
        them."""
        patches = [patch.read_text() for patch in self.patches]
        return [
            self.base.model_dump(exclude={"collecting", "linked", "source_files", "headers", "programs_from"}),
            self.flags(),
            self.link(),
            self.options(),
            self.profile,
            patches,
            self.version(),
        ]

    def version(self) -> str:
        """The first line of the compiler's `--version`; empty if the compiler is missing."""
        path = compiler_path(self.compiler)
        return first_line(path) if path else ""

    def missing(self, version: str | None) -> dict[str, str]:
        """Maps each program and C header that this version needs and this machine lacks to its Debian package."""
        wanted = {**self.base.programs, self.compiler: PACKAGES[self.compiler]}
        major = int((version or "0").partition(".")[0])
        for first, programs in self.base.programs_from.items():
            wanted |= programs if major >= first else {}
        headers = dict(self.base.headers)
        for part in self.parts.values():
            wanted |= {program: PACKAGES[program] for program in self._of(part).programs}
            headers |= part.headers
        if self.base.system == "cmake":
            wanted |= {"cmake": "cmake", "ninja": "ninja-build"}
        if self.patches:
            wanted["patch"] = "patch"
        lacking = {program: package for program, package in wanted.items() if not self.path(program)}
        if (compiler := compiler_path(self.compiler)) is None:
            return lacking
        if self.base.system == "cmake" and not (cxx := self._cxx(compiler)).is_file():
            lacking[cxx.name] = PACKAGES[cxx.name.partition("-")[0]]
        return lacking | {name: package for name, package in headers.items() if not has_header(compiler, name)}

    def path(self, program: str) -> str | None:
        """The path of a program on PATH. clang brings its own linker and tools, so the folder of clang comes
        first."""
        if program == self.compiler:
            return compiler_path(self.compiler)
        compiler = compiler_path(self.compiler)
        beside = Path(compiler).resolve().with_name(program) if compiler else None
        return str(beside) if beside and beside.is_file() and self.compiler == "clang" else shutil.which(program)


def mismatches(parts: Mapping[str, Part], facts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The differences between a program and its recipe, in words, and the facts that the program does not show."""
    wrong, unknown = [], []
    asked = [(name, fact, value, True) for name, part in parts.items() for fact, value in part.expects.items()]
    asked += [(name, fact, value, False) for name, part in parts.items() for fact, value in part.differs.items()]
    for name, fact, value, equal in asked:
        if (shown := facts.get(fact, UNKNOWN)) == UNKNOWN:
            unknown.append(fact)
        elif (shown == value) != equal:
            wrong.append(f"{name}: {fact} {'has to' if equal else 'must not'} be {value}, and it shows {shown}")
    compilers = [part.compiler for part in parts.values() if part.compiler]
    shown = facts.get("compiler", UNKNOWN)
    if shown == UNKNOWN:
        unknown.append("compiler")
    elif shown.split()[0] not in compilers:
        wrong.append(f"compiler has to be {' or '.join(compilers)}, and it shows {shown}")
    if facts.get("pgo") == "instrumented" and not any(part.expects.get("pgo") for part in parts.values()):
        wrong.append("it still collects a profile")
    return wrong, unknown


def compiler_path(name: str) -> str | None:
    """The path of a compiler on PATH: `clang`; if there is none, the newest compiler with a version in its name, such
    as `clang-14`."""
    numbered = ((shutil.which(f"{name}-{number}")) for number in range(30, 9, -1))
    return shutil.which(name) or next(filter(None, numbered), None)


@cache
def has_header(compiler: str, name: str) -> bool:
    """True if the compiler finds the C header `name`."""
    asked = f"#if !__has_include(<{name}>)\n#error\n#endif\n"
    command = [compiler, "-E", "-x", "c", "-"]
    return subprocess.run(command, input=asked, capture_output=True, text=True).returncode == 0


@cache
def first_line(program: str) -> str:
    return answer_of((program, "--version"), {}).partition("\n")[0]


def parts_of(key: str, engine: str, words: Sequence[str], own: Mapping[str, Any] | None = None) -> dict[str, Part]:
    """The parts that a recipe names. `key` is the recipe's key in runs.yaml, for messages; `own` may replace the
    engine's recipes.yaml."""
    own = own or table(f"rqps.engines.{engine}", "recipes") or {}
    known = {**table(__package__ or "", "recipes"), **{part: of for part, of in own.items() if part != "base"}}
    for word in words:
        if word not in known:
            what = f"{key}: unknown part {word!r}; {instead(word, known, 'parts')}"
            raise RqpsError(what, fix="write parts of recipes, such as gcc, o2 and lto")
    parts = {word: Part.model_validate(known[word]) for word in words}
    if (number := sum(part.compiler is not None for part in parts.values())) != 1:
        what = f"{key}: names {number} compilers, and has to name one"
        raise RqpsError(what, fix="name exactly one compiler, gcc or clang, among the parts, as in [gcc, o2]")
    return parts


def recipe_of(key: str, engine: str, words: Sequence[str], own: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a build that is made from source. `key` is the recipe's key in runs.yaml, for messages; `own` may
    replace the engine's recipes.yaml."""
    own = own or table(f"rqps.engines.{engine}", "recipes") or {}
    parts = parts_of(key, engine, words, own)
    if "base" not in own:
        fix = "build it yourself and give its path; a recipe beside the path is checked"
        raise RqpsError(f"{key}: rqps can't build {engine} from source", fix=fix)
    folder = Path(__file__).parents[1] / engine
    compiler = next(part.compiler for part in parts.values() if part.compiler)
    patches = tuple(folder / part.patch for part in parts.values() if part.patch)
    base = next((part.base for part in parts.values() if part.base), None) or Base.model_validate(own["base"])
    return Recipe(base, parts, compiler, patches)


UNUSED_OPTIONS = (
    re.compile(r"WARNING: unrecognized options: (.+)"),
    re.compile(r"Manually-specified variables were not used by the project:\s*\n((?:\s+\w+\n?)+)"),
)


def unused_options(log: str) -> list[str]:
    """The options that the build system reported as unknown, and ignored."""
    texts = (match[1] for pattern in UNUSED_OPTIONS for match in pattern.finditer(log))
    ours = {
        "CMAKE_AR",
        "CMAKE_RANLIB",
        "CMAKE_NM",
        "CMAKE_CXX_FLAGS_RELEASE",
        "CMAKE_CXX_FLAGS",
        "CMAKE_CXX_COMPILER",
    }
    return [option for text in texts for option in re.split(r"[\s,]+", text.strip()) if option not in ours]
