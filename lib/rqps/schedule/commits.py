"""Builds commits of a git checkout, by a recipe or by a command, which runs in a git worktree that rqps makes."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rqps.engines import Say, build_in
from rqps.engines.asked import ANY_VERSION, BuildSpec
from rqps.engines.cache import cache_dir, locked, made_once, short_key
from rqps.engines.making import Making, make_it
from rqps.engines.making.recipe import Recipe, recipe_of
from rqps.errors import RqpsError
from rqps.numbers import duration
from rqps.schedule.training import JOBS

LAST_LINES = 5
"""Number of lines of a build's log that its error message shows."""
SHORT = 12
"""Length of the short name of a commit, in characters."""
INSTALLED, LOG = "installed", "make.log"
PREFIX = "PREFIX"
"""The environment variable that gives a build command the directory to install into."""


class Touching(NamedTuple):
    """A commit whose diff touches functions whose cost changed."""

    commit: str
    subject: str
    functions: tuple[str, ...]
    weight: float
    """The sum of the absolute changes of the cost of `functions`, in instructions per operation."""


@dataclass
class Checkout:
    """A git repository with the command or the recipe that builds it. The repository's own working tree is never
    changed."""

    folder: Path
    make: str
    """The command; empty if a recipe builds the commits."""
    say: Say
    recipe: tuple[str, ...] = ()
    engine: str = ""
    """The engine that the recipe builds."""
    _seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.folder.expanduser().absolute()
        if not (self.folder / ".git").exists() and not (self.folder / "HEAD").is_file():
            raise RqpsError(f"--checkout {self.folder}: no git repository", fix="name the folder that git clone made")
        if profiled := [name for name, part in self._recipe.parts.items() if part.profile] if self.recipe else []:
            what = f"--recipe: {profiled[0]} is not for commits: each would be trained anew, and two profiles differ"
            raise RqpsError(what, fix=f"leave {profiled[0]} out")

    @property
    def _recipe(self) -> Recipe:
        return recipe_of("--recipe", self.engine, self.recipe)

    @cached_property
    def work(self) -> Path:
        """The folder in the cache with the builds of this repository's commits, and the git worktree in which rqps
        makes them. Builds by another command, recipe or compiler are in another folder."""
        how = self._recipe.identity() if self.recipe else self.make
        return cache_dir() / "commits" / short_key(str(self.folder), how)

    def git(self, *words: str, at: Path | None = None) -> str:
        command = ["git", "-C", str(at or self.folder), *words]
        # A diff has the bytes of its files, which may have any encoding.
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode != 0:
            raise RqpsError(
                f"git {' '.join(words)}: {done.stderr.strip()}", fix=f"run it in {self.folder} to see more"
            )
        return done.stdout.strip()

    def commit(self, revision: str) -> str:
        """The commit that a revision names."""
        done = subprocess.run(
            ["git", "-C", str(self.folder), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            fix = "name a commit, a tag or a branch that `git log` shows; run git fetch for commits of others"
            raise RqpsError(f"{self.folder} has no revision {revision!r}", fix=fix)
        return done.stdout.strip()

    def install_newest(self, branch: str, prefix: Path) -> str:
        """Fetches from all remotes, builds the last commit of a branch, and installs it below `prefix`, unless that
        commit is already installed there. A build by a recipe stays in the cache, and `prefix` becomes a link to it.
        Returns the commit's title."""
        if self.git("remote"):
            self.git("fetch", "--quiet", "--all")
        commit, note = self.commit(branch), self.work.parent / f"installed-{short_key(str(prefix))}"
        what = f"{self.work.name} {commit}"  # the work's name depends on the command or recipe
        is_link = prefix.is_symlink() and prefix.resolve().is_relative_to((cache_dir() / "made").resolve())
        if self.recipe:
            if os.path.lexists(prefix) and not is_link:
                fix = "remove it, or give the build another path: rqps puts a link to the commit's build there"
                raise RqpsError(f"{prefix} exists, and is no link to a build by a recipe", fix=fix)
            prefix.parent.mkdir(parents=True, exist_ok=True)
            (link := prefix.with_name(f".{prefix.name}.new")).unlink(missing_ok=True)
            link.symlink_to(self._made(commit))
            link.replace(prefix)
        elif is_link or not prefix.is_dir() or not note.is_file() or note.read_text() != what:
            if is_link:
                prefix.unlink()  # through this link, the command would install into the cache
            note.unlink(missing_ok=True)
            self.build(commit, prefix)
            note.write_text(what)
        return self.title(commit)

    def between(self, good: str, bad: str) -> list[str]:
        """The commits from `good` to `bad`, oldest first. A merge counts as one commit."""
        ends = self.commit(good), self.commit(bad)
        if ends[0] == ends[1]:
            raise RqpsError(f"{good} and {bad} are the same commit", fix="name two ends: --good NAME --bad NAME")
        if not self._is_before(*ends):
            turned = self._is_before(*ends[::-1])
            fix = f"exchange the ends: --good {bad} --bad {good}" if turned else "name another end"
            raise RqpsError(f"{good} is no ancestor of {bad}", fix=fix)
        listed = self.git("rev-list", "--first-parent", "--reverse", f"{ends[0]}..{ends[1]}").split()
        if changed := self.git("status", "--porcelain", "--untracked-files=no"):
            count = len(changed.splitlines())
            self.say(f"{self.folder}: {count} changed file(s) are in no commit, and so in no build")
        return [ends[0], *listed]

    def _is_before(self, one: str, other: str) -> bool:
        words = ["merge-base", "--is-ancestor", one, other]
        return subprocess.run(["git", "-C", str(self.folder), *words], capture_output=True).returncode == 0

    def built(self, commit: str) -> BuildSpec:
        """The build of a commit, which is built only once. Raises RqpsError if the commit does not build."""
        if self.recipe:
            return build_in(self._made(commit), self.say)[1]
        folder = self.work / commit[:SHORT]
        made_once(folder, lambda partial: self.build(commit, partial / INSTALLED, partial / LOG), self.say)
        return build_in(folder / INSTALLED, self.say)[1]

    def _made(self, commit: str) -> Path:
        """The folder of a commit's build. The recipe makes the build from a copy of the commit's files."""
        source = {"git": self.folder.as_uri(), "commit": self.commit(commit)}
        spec = BuildSpec(source=source, recipe=self.recipe).model_copy(update={self.engine: ANY_VERSION})
        making = Making.of(name := f"c{commit[:SHORT]}", spec)
        if making.tree.is_dir():
            return making.tree
        if not self._seconds:
            self.say(making.in_words())
        with self._building(commit):
            try:
                return make_it(making, self.say, jobs=JOBS)
            except RqpsError as error:
                why = error.message.removeprefix(f"builds.{name}: ")
                raise RqpsError(f"{self.title(commit)} does not build: {why}", fix=error.fix) from error

    def build(self, commit: str, prefix: Path, log: Path | None = None) -> None:
        """Builds a commit with the command, which installs it below `prefix`."""
        log = log or self.work / LOG
        with locked(self.work / "worktree", lambda: self.say("waiting for another rqps that builds this checkout")):
            tree = self._worktree(commit)
            prefix.mkdir(parents=True, exist_ok=True)
            with self._building(commit), log.open("w") as output:
                done = subprocess.run(
                    ["/bin/sh", "-c", self.make],
                    cwd=tree,
                    env={**os.environ, PREFIX: str(prefix)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                if done.returncode != 0:
                    last = "\n  ".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
                    fix = f"see that the command builds it in {tree}, and installs in ${PREFIX}"
                    raise RqpsError(f"{self.title(commit)} does not build:\n  {last}", fix=fix)

    @contextmanager
    def _building(self, commit: str) -> Iterator[None]:
        """Reports that a commit is being built, with the time of the slowest build so far; measures the time of this
        build."""
        took = f", {duration(max(self._seconds))} the last time" if self._seconds else ""
        self.say(f"building {self.title(commit)}{took}")
        began = time.monotonic()
        yield
        self._seconds.append(time.monotonic() - began)

    def _worktree(self, commit: str) -> Path:
        """The git worktree for builds, with this commit checked out. It keeps the object files of the last build, so
        `make` compiles less."""
        tree = self.work / "worktree"
        if not tree.is_dir():
            tree.parent.mkdir(parents=True, exist_ok=True)
            self.git("worktree", "prune")
            self.git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        self.git("checkout", "--quiet", "--force", "--detach", commit, at=tree)
        return tree

    def title(self, commit: str) -> str:
        """The short name of a commit and its subject."""
        return self.git("log", "-1", "--format=%h %s", f"--abbrev={SHORT}", commit)

    def touching(self, before: str, after: str, changes: Mapping[str, float]) -> list[Touching]:
        """The commits after `before`, up to `after`, that touch functions whose cost changed (`changes`). Commits
        whose functions changed most in cost come first."""
        bare = {function: pattern for function in changes if (pattern := _bare(function))}
        touching = []
        for commit in self.git("rev-list", "--no-merges", f"{before}..{after}").split():
            diff = self.git("show", "--format=", "--unified=0", "--no-color", commit)
            lines = "\n".join(line for line in diff.splitlines() if line.startswith(("@@", "+", "-")))
            named = tuple(function for function, name in bare.items() if re.search(rf"\b{re.escape(name)}\b", lines))
            weight = sum(abs(changes[function]) for function in named)
            touching.append(Touching(commit[:SHORT], self.git("log", "-1", "--format=%s", commit), named, weight))
        return sorted((one for one in touching if one.functions), key=lambda one: -one.weight)


def _bare(function: str) -> str:
    """The name of a function without namespace, class and parameters.

    >>> _bare("db::Table::Get(db::Options const&)"), _bare("memcpy")
    ('Get', 'memcpy')
    """
    return re.split(r"[(<]", function, maxsplit=1)[0].rpartition("::")[2].strip("~ ")


def every_nth(candidates: Sequence[str], step: int) -> list[str]:
    """Every `step`-th candidate, counted from the first, and the last candidate.

    >>> every_nth("abcdefg", 3), every_nth("abcdef", 4)
    (['a', 'd', 'g'], ['a', 'e', 'f'])
    """
    return [*candidates[:-1:step], candidates[-1]]
