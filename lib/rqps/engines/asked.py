"""The builds and options that runs.yaml asks an engine for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

from pydantic import ConfigDict, Field, PrivateAttr, StringConstraints, create_model, model_validator

from rqps.engines import ENGINES, Option, Strict, Version, facts_of, facts_of_all
from rqps.errors import RqpsError

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
LATEST = "LATEST"
"""Maven's version keyword for the newest version of an artifact."""
SOURCES = ("path", "url", "maven", "npm", "debian", "on_path", "made_from")
ANY_VERSION = ""
"""The value of the version in a spec that states only the engine: rqps then reads the version from the finished
build."""
REORDERED = "sections"
"""The part of a recipe that puts each function into a section of its own, so that functions can be linked in any
order."""


class SourceTree(Strict):
    """The source code of a build that rqps compiles: exactly one of `path`, `url`, `git` and `debian`."""

    path: Annotated[str, StringConstraints(pattern=r"^(/|~/)")] | None = None
    """A directory, absolute or below `~/`. It is copied; a checkout may have uncommitted changes."""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[!-.0-~]+/[!-~]+$")] | None = None
    """A tarball or a zip; `sha256` must be given with it."""
    sha256: Sha256 | None = None
    git: Annotated[str, StringConstraints(pattern=r"^[^-\s]\S*$")] | None = None
    """A repository, by URL or path; `commit` must be given with it."""
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")] | None = None
    debian: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")] | None = None
    """A Debian source package; `suite` and `version` must be given with it. Only upstream's tarball is used, without
    Debian's patches."""
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")] | None = None
    version: Annotated[str, StringConstraints(pattern=r"^[0-9][\w.:+~-]*$")] | None = None

    @property
    def words(self) -> str:
        """A description of the source for people: `debian source bookworm postgresql-15 15.18-0+deb12u1`."""
        if self.debian:
            return f"debian source {self.suite} {self.debian} {self.version}"
        return f"git {self.git} {self.commit}" if self.git else str(self.url or f"directory {self.path}")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [key for key in ("path", "url", "git", "debian") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"a source has one of path, url, git and debian, not {' and '.join(given) or 'none'}")
        beside = {"path": (), "url": ("sha256",), "git": ("commit",), "debian": ("suite", "version")}
        needed = beside[given[0]]
        others = {key for keys in beside.values() for key in keys}
        if any((getattr(self, key) is not None) != (key in needed) for key in others):
            raise ValueError(f"{given[0]} goes with {' and '.join(needed) or 'nothing else'}")
        return self


class _Source(Strict):
    """A build: a version in the catalogue, or a source. If a version is given with a source, the build from the
    source must have this version.

    >>> BuildSpec(path="/opt/db/8040_rel_o2nofp").source
    'path'
    """

    path: Annotated[str, StringConstraints(pattern=r"^(/|~/)")] | None = None
    """A directory with a build in it, absolute or below `~/`: an unpacked release, the result of
    `make install`, or a build tree if the server runs from it. For an engine that is a library: the directory of the
    library, or the path of a program that contains it."""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[!-.0-~]+/[!-~]+$")] | None = None
    """A tarball or a zip; `sha256` must be given with it."""
    maven: Annotated[str, StringConstraints(pattern=r"^[\w.-]+(:[\w.-]+){2,4}$")] | None = None
    """`group:artifact:version`, followed by the archive's type and classifier if it has them."""
    npm: Annotated[str, StringConstraints(pattern=r"^(@[\w.-]+/)?[\w.-]+@[\w.+-]+$")] | None = None
    """A package of npm with its version: `name@version`."""
    debian: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")] | None = None
    """A package of the Debian suite that `suite` names."""
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")] | None = None
    on_path: Annotated[bool, Field(description="true: the server's program on PATH")] | None = None
    sha256: Sha256 | None = None
    """The archive's SHA-256. Only a URL needs it: the clients of Maven, npm and Debian verify their downloads."""
    made_from: SourceTree | None = Field(None, alias="source")
    """The source code from which `rqps builds make` makes the build; `recipe` must be given with it."""
    recipe: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] | None = None
    """The parts of a recipe, in order: [gcc, o2, lto]. With `path`, a program is refused if it shows that it was
    compiled in another way."""
    training: str | None = None
    """The study whose workload and parameters train a build with profile-guided optimization."""
    layout: Annotated[int, Field(ge=1, le=999)] | None = None
    """The number of a layout, which decides the order in which the functions are linked. Without it, the linker
    chooses the order. In a study with `layouts`, this is the number of the first layout."""
    _copy: Path | None = PrivateAttr(None)
    model_config = ConfigDict(populate_by_name=True)

    if TYPE_CHECKING:

        def __init__(self, **keys: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    @property
    def engine(self) -> str:
        """The engine of the build: the one whose version is given, else the one whose program the path ends with,
        else the default engine."""
        promised = [name for name in ENGINES if getattr(self, name) is not None]
        by_path = [name for name in ENGINES if str(self.path).endswith(f"/{facts_of(name).program}")]
        usual = [name for name in ENGINES if facts_of(name).usual]
        return [*promised, *by_path, *usual][0]

    @property
    def unordered(self) -> str:
        """The reason why the build can't be linked in another order; empty if it can."""
        if self.made_from is None:
            return f"its {_key(self.source or 'version')} is a finished program; write source and recipe in its place"
        missing = REORDERED not in (self.recipe or ())
        return f"its recipe lacks {REORDERED!r}; write [{', '.join((*(self.recipe or ()), REORDERED))}]" * missing

    def with_layout(self, number: int | None) -> Self:
        """The same build in the layout `number`; None means the linker's own order."""
        return self.model_copy(update={"layout": number})

    @property
    def copied(self) -> Path | None:
        """The tree with a copy of an earlier version of the build, if this copy is used in place of the source;
        else None."""
        return self._copy

    def copied_to(self, tree: Path) -> Self:
        """The same entry of runs.yaml for an earlier version of the build, a copy of which is in `tree`."""
        earlier = self.model_copy()
        earlier._copy = tree
        return earlier

    @property
    def version(self) -> str | None:
        """The version that runs.yaml gives for the build; None if it gives no version."""
        version: str | None = getattr(self, self.engine)
        return version or None

    @property
    def source(self) -> str | None:
        """The key of the build's source, such as `url`; None if the build is a release in the catalogue."""
        return next((key for key in SOURCES if getattr(self, key) is not None), None)

    @property
    def newest(self) -> bool:
        """True if the source changes when a new version is published: a package of a Debian suite, `LATEST` in Maven,
        or a tag in npm."""
        of_maven, of_npm = (self.maven or "").split(":")[2:3], (self.npm or "").rpartition("@")[2]
        return self.debian is not None or of_maven == [LATEST] or of_npm[:1].isalpha()

    @property
    def moves(self) -> bool:
        """True if the same entry of runs.yaml may mean another binary later: a rebuild at the same path, or a newer
        package."""
        return self.source in ("path", "on_path") or self.newest

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in SOURCES if getattr(self, key) is not None]
        versions = [key for key in ENGINES if getattr(self, key) is not None]
        if len(versions) > 1:
            raise ValueError(f"a build is of one engine, not of {' and '.join(versions)}: keep one of them")
        if len(given) > 1:
            raise ValueError(f"a build has one source, not {' and '.join(map(_key, given))}: keep one of them")
        if self.made_from is not None and self.recipe is None:
            raise ValueError("a source is built by a recipe: write one beside it, such as recipe: [gcc, o2]")
        if self.recipe is not None and self.made_from is None and self.path is None:
            raise ValueError("a recipe goes with a source, or with the path of a build that has to be of that recipe")
        if self.training is not None and self.made_from is None:
            raise ValueError("training is for a build with source and recipe")
        if self.layout is not None and self.unordered:
            raise ValueError(f"layout is for a build that rqps links again: {self.unordered}")
        if not given and not versions:
            usual = facts_of(self.engine)
            words = f'{usual.name}: "{usual.example}"'
            raise ValueError(f"give a version ({words}) or a source, one of {', '.join(map(_key, SOURCES))}")
        if self.on_path is False:
            raise ValueError("on_path: true or nothing")
        if self.url is not None and self.sha256 is None:
            raise ValueError("a url needs the archive's sha256 beside it")
        if self.sha256 is not None and self.source not in ("url", "maven", "npm"):
            raise ValueError("sha256 is for an archive (url, maven, npm)")
        if (self.debian is None) != (self.suite is None):
            package = facts_of(self.engine).debian_package
            raise ValueError(f"debian and suite go together, as in debian: {package}, suite: sid")
        return self


def _key(field: str) -> str:
    """The key in runs.yaml of a field of `_Source`."""
    return "source" if field == "made_from" else field


if TYPE_CHECKING:
    BuildSpec = _Source
else:
    BuildSpec = create_model(
        "BuildSpec",
        __base__=_Source,
        __doc__=_Source.__doc__,
        **{
            facts.name: (
                Version | None,
                Field(
                    None,
                    description=f"The version of a build of {facts.title}. Without a source, the build comes from "
                    "the catalogue; with one, the build must have this version. Two numbers, such as 9.7, mean any "
                    "release of the series.",
                ),
            )
            for facts in facts_of_all()
        },
    )


@dataclass(frozen=True)
class Connections:
    """The number of connections that a server must accept at the same time."""

    parameter: str
    """The workload parameter that sets the number of clients, such as `threads`; named in messages."""
    clients: int
    ours: int

    @property
    def needed(self) -> int:
        return self.clients + self.ours

    def refuse_beyond(self, most: int) -> None:
        """Fails if more connections are needed than `max_connections` allows."""
        if self.needed > most:
            raise RqpsError(
                f"max_connections is {most}; {self.clients} {self.parameter} and {self.ours} further connections of "
                f"rqps need {self.needed}",
                fix=f"set max_connections to {self.needed} or more in the config, or ask for fewer {self.parameter}",
            )


class Asked(Protocol):
    """The dbms that a run asks for, before it is prepared."""

    @property
    def dbms(self) -> str: ...
    @property
    def build(self) -> str: ...
    @property
    def build_spec(self) -> BuildSpec: ...
    @property
    def config(self) -> str: ...
    @property
    def options(self) -> Mapping[str, Option]: ...
    @property
    def scenario(self) -> Any:
        """The scenario that the config asks for, of the engine's own type; None if the config has no scenario."""
