"""Makes builds from source: compiles by a recipe, runs a training if the recipe asks for PGO, and checks the finished
program.

A finished build is in the cache, in a folder named by a hash of its source, recipe and compiler. A build in progress
has another folder, so that a second call continues where the first was stopped. If the recipe puts functions into
sections, the folder of the build in progress stays, and layouts of the build are linked from the objects in it.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rqps.engines import Say, facts_of
from rqps.engines.asked import BuildSpec
from rqps.engines.cache import cache_dir, locked, made_once, short_key
from rqps.engines.compiled import functions, in_short
from rqps.engines.making import order, pgo, tree
from rqps.engines.making.recipe import Part, Recipe, mismatches, parts_of, recipe_of, unused_options
from rqps.engines.sources import Sought
from rqps.engines.sources.fetching import SECONDS_BETWEEN_LOOKS, size_bytes
from rqps.errors import NO_ROOM, RqpsError
from rqps.numbers import counted, duration, in_percent, megabytes, percent

MADE, LOG = "made.json", "make.log"
SECONDS_BETWEEN_LINES = 10.0
STEPS_FOR_AN_ESTIMATE = 10
MOST_UNPROFILED = 0.9
"""Maximum share of source files for which the compiler finds no PGO profile. With a larger share, the profile belongs
to another build. Many files without a profile are normal, since no training runs the code of all files."""
MOST_MISFITS = 0.5
"""Maximum share of the functions in a profile that differ in the build that uses it. With a larger share, the profile
belongs to another source."""
LAST_LINES = 8
_STEP = re.compile(r"^\[(\d+)/(\d+)\] |\s-c\s")
_ERROR = re.compile(r"\berror\b|\*\*\*|undefined reference|No such file", re.IGNORECASE)
_UNPROFILED = re.compile(r"profile count data file not found")

Train = Callable[[Path], None]
"""A function that trains the build in a tree: it runs a load on the build, which then writes the PGO profile."""


@dataclass(frozen=True)
class Making:
    """A build to be made from source."""

    name: str
    spec: BuildSpec
    recipe: Recipe
    key: str

    @classmethod
    def of(cls, name: str, spec: BuildSpec) -> "Making":
        assert spec.made_from is not None
        assert spec.recipe is not None
        recipe = recipe_of(f"builds.{name}.recipe", spec.engine, spec.recipe)
        source = tree.identity(name, spec.made_from)
        return cls(name, spec, recipe, short_key(spec.engine, source, recipe.identity(), spec.training))

    @property
    def folder(self) -> Path:
        return cache_dir() / "made" / f"{self.spec.engine}-{self.key}"

    @property
    def tree(self) -> Path:
        layout = "" if self.spec.layout is None else f"layout-{self.spec.layout}"
        return self.folder / layout / "tree"

    @property
    def in_first_order(self) -> "Making":
        """The same build, linked in the linker's own order."""
        return replace(self, spec=self.spec.with_layout(None))

    @property
    def work(self) -> Path:
        """The folder of the build in progress. Its path must not change, since the compiler finds the files of a PGO
        profile by this path."""
        return cache_dir() / "making" / f"{self.spec.engine}-{self.key}"

    def in_words(self) -> str:
        """The source, recipe, compiler and disk space of the build, which are printed before it is made."""
        parts = "; ".join(part.about for part in self.recipe.parts.values())
        source = self.spec.made_from
        assert source is not None
        state = ", ".join(filter(None, (source.words, tree.changed(source))))
        room = f"up to {megabytes(self.recipe.base.room_mb * 1_000_000)} in {cache_dir()}"
        lines = [f"{self.name}: {facts_of(self.spec.engine).title} from {state}", f"  {parts}"]
        lines += [f"  {self.recipe.version() or self.recipe.compiler}, {shlex.join(self.recipe.flags())}"]
        if missing := self.recipe.missing(self.spec.version):
            lines.append(f"  missing: {', '.join(missing)}; apt install {' '.join(dict.fromkeys(missing.values()))}")
        return "\n".join([*lines, f"  {room}; the time left is known after the first steps"])

    def refuse_what_is_missing(self) -> None:
        """Refuses to begin if a program, a C header, disk space or the training is missing."""
        if missing := self.recipe.missing(self.spec.version):
            what = f"builds.{self.name}: this machine lacks {', '.join(missing)}"
            raise RqpsError(what, fix=f"apt install {' '.join(dict.fromkeys(missing.values()))}")
        if self.recipe.profile and self.spec.training is None:
            what = f"builds.{self.name}: its recipe needs a profile, but the build names no training study"
            raise RqpsError(what, fix="write training: beside the recipe, with the name of a study of runs.yaml")
        cache_dir().mkdir(parents=True, exist_ok=True)
        free, needed = shutil.disk_usage(cache_dir()).free, self.recipe.base.room_mb * 1_000_000
        if free < needed:
            room = f"{cache_dir()} has {megabytes(free)} of room"
            raise RqpsError(
                f"builds.{self.name}: {NO_ROOM[0]}: a build takes up to {megabytes(needed)}, and {room}",
                fix="free some room there, or set RQPS_CACHE to a directory on another disk",
            )


def make_it(making: Making, say: Say, *, jobs: int, niceness: int = 10, train: Train | None = None) -> Path:
    if making.tree.is_dir():
        return making.tree
    if making.spec.layout is not None:
        make_it(making.in_first_order, say, jobs=jobs, niceness=niceness, train=train)
    making.refuse_what_is_missing()
    with locked(making.work, lambda: say(f"{making.name}: another rqps is making it: waiting for that to end")):
        if not making.tree.is_dir():
            maker = _Maker(making, say, jobs, niceness)
            if making.spec.layout is None:
                maker.all(train)
            else:
                maker.link_again(train)
    return making.tree


def refuse_other_recipe(name: str, spec: BuildSpec, program: Path, parts: Mapping[str, Part] | None = None) -> None:
    """Refuses a program that was not compiled as its recipe says. If others compiled the program, facts that can't be
    read from it are not checked. If rqps compiled it, all facts must be readable, since rqps lets the compiler record
    its flags in the program."""
    if spec.recipe is None:
        return
    facts = _sought(name, spec).how_compiled(program)
    wrong, unknown = mismatches(parts or parts_of(f"builds.{name}.recipe", spec.engine, spec.recipe), facts)
    if spec.made_from is not None and unknown:
        wrong.append(f"it does not show {', '.join(unknown)}, so nothing can be read back")
    if wrong:
        raise RqpsError(
            f"builds.{name}.recipe: {program} is not what its recipe [{', '.join(spec.recipe)}] says:\n  "
            + "\n  ".join(wrong),
            fix="correct the recipe, or correct the build and compile again: the build system may override a flag",
        )


def not_made(name: str, spec: BuildSpec) -> RqpsError:
    """The error for a build that is asked for before it was made."""
    making = Making.of(name, spec)
    now = making.recipe.version() or f"{making.recipe.compiler} is missing"
    earlier = [json.loads(file.read_text()) for file in making.folder.parent.glob(f"*/{MADE}")]
    other = [one["compiler"] for one in earlier if one["name"] == name and one["compiler"] != now]
    why = f"; it was made by {other[0]}, and now the compiler is {now}" if other else ""
    fix = f"rqps builds make {name}, or rqps run with --make"
    what = "it is not made" if spec.layout is None else f"its layout {spec.layout} is not made"
    return RqpsError(f"builds.{name}: {what} from its source yet{why}", fix=fix)


def refuse_unlinked(builds: Iterable[tuple[str, BuildSpec]], study: str) -> None:
    """Refuses layouts of builds that were not linked yet, all in one error."""
    asked = {(name, spec.layout): spec for name, spec in builds if spec.layout is not None}
    lacking: dict[str, list[str]] = {}
    for (name, number), spec in sorted(asked.items()):
        if not Making.of(name, spec).tree.is_dir():
            lacking.setdefault(name, []).append(str(number))
    if lacking:
        lines = (f"builds.{name}: not linked yet: layout {', '.join(numbers)}" for name, numbers in lacking.items())
        raise RqpsError("\n".join(lines), fix=f"rqps run {study} --make")


class _Maker:
    """Makes one build in the folder of the build in progress: fetches the source, configures, compiles, trains and
    links."""

    def __init__(self, making: Making, say: Say, jobs: int, niceness: int) -> None:
        self._making, self._recipe, self._say = making, making.recipe, say
        self._jobs, self._nice = jobs, niceness
        self._work, self._name = making.work, making.name
        self._build, self._profile = making.work / "build", making.work / "profile"
        self._log, self._order = making.work / LOG, making.work / "order"

    def all(self, train: Train | None) -> None:
        self._work.mkdir(parents=True, exist_ok=True)
        self._source()
        self._order.write_text("")
        flags, link = self._recipe.flags(), [*self._recipe.link(), *self._recipe.order_options(self._order)]
        if self._recipe.profile:
            collect, use = self._recipe.profile_flags(self._profile)
            if not (self._work / "trained").exists():
                more = self._recipe.base.collecting
                self._train(self._built([*flags, *collect], [*link, *collect], more), train)
                # The build that uses the profile needs the same path, since file names of the profile contain it.
                shutil.rmtree(self._build)
                (self._work / "trained").touch()
            flags, link = [*flags, *use], [*link, *use]
        installed = self._built(flags, link)
        self._refuse_misfits()
        program = _program(self._making, installed)
        refuse_other_recipe(self._name, self._making.spec, program, self._recipe.parts)
        self._refuse_other_version(installed)
        how = in_short(_sought(self._name, self._making.spec).how_compiled(program))
        self._say(f"{self._name}: {how}, {megabytes(size_bytes(installed))}")
        self._keep(installed)

    def link_again(self, train: Train | None) -> None:
        """Links the program of the finished build in the order of a layout, and checks the order in the linked
        program."""
        making, linked = self._making, self._recipe.base.linked
        if not self._build.is_dir():
            self._say(f"{self._name}: the objects of its build are gone, and are compiled again")
            self.all(train)
        first = _program(making, making.in_first_order.tree).resolve()
        asked = order.of_layout(functions(first), making.key, making.spec.layout)
        self._order.write_text(self._recipe.order_text(asked))
        try:
            for program in self._build.glob(linked.file):
                program.unlink()
            self._run(self._target(*linked.target), self._build, "link")
            (program,) = self._build.glob(linked.file)
            share = order.share_in_order(asked, functions(program))
            what = f"{in_percent(share)} of {len(asked)} functions follow the function that they should follow"
            if share < order.LEAST_SHARE:
                raise RqpsError(
                    f"builds.{self._name}: the linker ignored the order of layout {making.spec.layout}: {what}, and "
                    f"{percent(order.LEAST_SHARE)} have to",
                    fix="take a recipe whose linker orders functions, such as [clang, o2, sections], with lld",
                )
            self._say(f"{self._name}: layout {making.spec.layout}, {what}")

            def put(folder: Path) -> None:
                shutil.copytree(making.in_first_order.tree, folder / "tree", symlinks=True, copy_function=os.link)
                (copied := folder / "tree" / first.relative_to(making.in_first_order.tree.resolve())).unlink()
                shutil.copy2(program, copied)

            made_once(making.tree.parent, put, self._say)
        finally:
            self._order.write_text("")

    def _refuse_other_version(self, installed: Path) -> None:
        from rqps.engines import engine_of

        spec = self._making.spec
        as_path = spec.model_copy(update={"made_from": None, "path": str(installed), "recipe": None})
        engine_of(spec).locate(self._name, as_path, self._say)

    def _source(self) -> None:
        if (source := self._work / "source").is_dir():
            return
        for partial in ("copied", "unpacked"):
            shutil.rmtree(self._work / partial, ignore_errors=True)
        assert self._making.spec.made_from is not None
        tree.put_into(self._name, self._making.spec.made_from, copied := self._work / "copied", self._say)
        for patch in self._recipe.patches:
            command = ["patch", "-p1", "--forward", "--batch", "--fuzz=0", "-i", str(patch)]
            done = subprocess.run(command, cwd=copied, capture_output=True, text=True)
            if done.returncode != 0:
                what = f"builds.{self._name}: {patch.name} does not fit this source:\n  {done.stdout.strip()[-400:]}"
                raise RqpsError(what, fix="leave the part out of the recipe, or take a release that the patch is for")
        copied.rename(source)

    def _train(self, installed: Path, train: Train | None) -> None:
        assert train is not None
        shutil.rmtree(self._profile, ignore_errors=True)  # remove profiles of the build's own tools and tests
        self._profile.mkdir()
        self._profile.chmod(0o777)  # the server may run as another user
        self._say(f"{self._name}: training under {self._making.spec.training}")
        train(installed)
        raw = [*self._profile.rglob("*.gcda"), *self._profile.rglob("*.profraw")]
        if not raw:
            what = f"builds.{self._name}: the training under {self._making.spec.training} left no profile"
            raise RqpsError(what, fix="see that the study runs to its end: a server that is killed writes no profile")
        self._say(f"{self._name}: {counted(len(raw), 'file')} of profile")
        if self._recipe.compiler == "clang":
            tool, merged = str(self._recipe.path("llvm-profdata")), f"{self._profile}/merged.profdata"
            self._run(
                [tool, "merge", "--sparse", f"-output={merged}", *map(str, raw)], self._work, "merging profiles"
            )

    def _built(self, flags: Sequence[str], link: Sequence[str], more: Sequence[str] = ()) -> Path:
        """Configures and builds with these flags, and `more` arguments of make. Returns the folder of the installed
        files."""
        installed = self._work / "installed"
        configured, key = self._build / "rqps-configured", short_key(flags, link)
        if not configured.exists() or configured.read_text() != key:
            shutil.rmtree(self._build, ignore_errors=True)
            self._build.mkdir()
            self._log.write_text("")
            command = self._recipe.configure(self._work / "source", self._build, installed, flags, link)
            log = self._run(command, self._build, "configure")
            if unused := unused_options(log):
                what = f"builds.{self._name}: the build system does not know {', '.join(unused)}"
                raise RqpsError(what, fix="take the option out of the recipe: it would be ignored")
            configured.write_text(key)
        shutil.rmtree(installed, ignore_errors=True)
        commands = [[*self._target(folder, target), *more] for folder, target in self._recipe.base.targets]
        for number, (command, (_, target)) in enumerate(
            zip(commands, self._recipe.base.targets, strict=True), start=1
        ):
            part = f"{self._name}: part {number} of {len(commands)}" if len(commands) > 1 else self._name
            progress = _Progress(part, self._say, self._number_of_steps(command))
            self._run(command, self._build, target, progress, pgo.ALL_WARNINGS if self._recipe.profile else {})
        base = self._recipe.base
        for root, globs in ((self._work / "source", base.source_files), (self._build, base.server_files)):
            for path in (path for glob in globs for path in root.glob(glob)):
                (copied := installed / path.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copied)
        return installed

    def _target(self, folder: str, target: str) -> list[str]:
        if self._recipe.base.system == "cmake":
            return ["cmake", "--build", ".", f"-j{self._jobs}", "--target", target]
        return ["make", f"-j{self._jobs}", "-C", folder, target]

    def _number_of_steps(self, command: list[str]) -> int:
        if self._recipe.base.system == "cmake":
            return 0  # each progress line of ninja contains the number of all commands
        done = subprocess.run([*command, "-n"], cwd=self._build, capture_output=True, text=True)
        return sum(1 for line in done.stdout.splitlines() if _STEP.search(line))

    def _run(
        self,
        command: Sequence[str],
        folder: Path,
        what: str,
        progress: "_Progress | None" = None,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Runs a program to its end, with further environment variables, writes its output to the log and returns the
        output. If rqps is interrupted, the program and all processes that it started are stopped."""
        before = self._log.stat().st_size
        environment = {key: of for key, of in os.environ.items() if key not in ("CFLAGS", "CXXFLAGS", "LDFLAGS")}
        environment |= {"LC_ALL": "C.UTF-8", "LANGUAGE": "", **(variables or {})}  # messages are parsed in English
        with self._log.open("a") as log:
            log.write(f"$ {shlex.join(command)}\n")
            log.flush()
            running = subprocess.Popen(
                ["nice", "-n", str(self._nice), *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        lines: list[str] = []
        with self._log.open(errors="replace") as answer:
            answer.seek(before)
            try:
                while running.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        running.wait(SECONDS_BETWEEN_LOOKS)
                    for line in answer:
                        lines.append(line)
                        if progress:
                            progress.read(line)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGTERM)  # make then removes its incomplete file
                running.wait()
            lines += answer
        if running.returncode != 0:
            errors = [line.rstrip() for line in lines if _ERROR.search(line)][:LAST_LINES]
            shown = "\n  ".join(errors or [line.rstrip() for line in lines[-LAST_LINES:]])
            raise RqpsError(
                f"builds.{self._name}: {what} failed (exit status {running.returncode}):\n  {shown}",
                fix=f"the full output is in {self._log}; after a fix, the same rqps command continues this build",
            )
        return "".join(lines)

    def _refuse_misfits(self) -> None:
        """Refuses a profile if, according to the compiler's warnings, most files of the build have none, or most
        functions in the profile differ in the build."""
        if not self._recipe.profile:
            return
        log = self._log.read_text(errors="replace")
        fix = f"remove {self._work}, then make the build again, with a new training: rqps builds make {self._name}"
        # Only gcc finds profiles by directory; clang finds the profile of a function by the function's name.
        if self._recipe.compiler == "gcc":
            files = sum(1 for line in log.splitlines() if _STEP.search(line) and not line.startswith("$"))
            without = len(_UNPROFILED.findall(log))
            self._say(f"{self._name}: {without} of {files} files have no profile")
            if without > MOST_UNPROFILED * files:
                raise RqpsError(f"builds.{self._name}: the profile belongs to another build directory", fix=fix)
            number, misfits = pgo.misfits_of_gcc(self._profile, log)
        else:
            tool, merged = str(self._recipe.path("llvm-profdata")), f"{self._profile}/merged.profdata"
            shown = self._run([tool, "show", "--all-functions", merged], self._work, "reading the profile")
            number, misfits = pgo.misfits_of_clang(shown, log, self._work)
        what = f"{misfits:,} of {counted(number, 'function')} in the profile differ in this build"
        self._say(f"{self._name}: {what}")
        if misfits > MOST_MISFITS * number:
            what = f"the profile belongs to another source or another build directory: {what}"
            raise RqpsError(f"builds.{self._name}: {what}", fix=fix)

    def _keep(self, installed: Path) -> None:
        spec, folder = self._making.spec, self._making.folder
        assert spec.made_from is not None
        assert spec.recipe is not None
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._log, folder / LOG)
        facts = {"name": self._name, "source": spec.made_from.words, "recipe": [*spec.recipe]}
        state = tree.changed(spec.made_from)
        facts |= {"compiler": self._recipe.version(), "flags": self._recipe.flags(), "state": state}
        (folder / MADE).write_text(json.dumps(facts, indent=1))
        if (target := self._making.in_first_order.tree).is_dir():
            shutil.rmtree(installed)  # the tree exists: the build was repeated only for its object files
        else:
            installed.rename(target)
        if not self._recipe.order_options(self._order):
            shutil.rmtree(self._work)


class _Progress:
    """Prints progress lines while a build is made; after the first commands of make, they show the time left."""

    def __init__(self, name: str, say: Say, total: int) -> None:
        self._name, self._say, self._total = name, say, total
        self._done, self._began_at = 0, time.monotonic()
        self._last_line_at = self._began_at

    def read(self, line: str) -> None:
        if not (step := _STEP.search(line)):
            return
        self._done, self._total = (int(step[1]), int(step[2])) if step[1] else (self._done + 1, self._total)
        now = time.monotonic()
        if now - self._last_line_at < SECONDS_BETWEEN_LINES:
            return
        self._last_line_at = now
        left = ""
        if self._done >= STEPS_FOR_AN_ESTIMATE and self._total > self._done:
            left = f", {duration((now - self._began_at) / self._done * (self._total - self._done))} left"
        self._say(f"{self._name}: step {self._done} of {max(self._total, self._done)}{left}")


def _program(making: Making, installed: Path) -> Path:
    sought = _sought(making.name, making.spec)
    program = sought.in_tree(installed) if installed.is_dir() else None
    if program is None:
        what = f"builds.{making.name}: the build left no {sought.program}"
        raise RqpsError(what, fix=f"the log has it all: {making.work / LOG}")
    return program


def _sought(name: str, spec: BuildSpec) -> Sought:
    from rqps.engines import engine_of

    return engine_of(spec).source(name, spec).sought
