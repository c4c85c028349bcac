"""How `runs.yaml` and the catalogue say where a build comes from."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+(\.\d+)?$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

SOURCES = ("path", "url", "maven", "npm", "debian", "on_path")


class BuildSpec(BaseModel):
    """One build: a version of the catalogue, or a source, whose version may be promised beside it.

    >>> BuildSpec(mysql="8.0.33").source is None
    True
    >>> BuildSpec(path="/opt/mysql/my8040_rel_o2nofp", mysql="8.0.40").source
    'path'
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    mysql: Version | None = None
    """The version: looked up in the catalogue where it stands alone, else what the source must turn out to be.
    `9.7` promises any 9.7.x."""
    path: Annotated[str, StringConstraints(pattern=r"^(/|~/)")] | None = None
    """A directory with a server in it, absolute or below `~/`: an unpacked release or a build tree."""
    url: Annotated[str, StringConstraints(pattern=r"^https?://[!-.0-~]+/[!-~]+$")] | None = None
    """A tarball or a zip; `sha256` must be given with it."""
    maven: Annotated[str, StringConstraints(pattern=r"^[\w.-]+(:[\w.-]+){2,4}$")] | None = None
    """`group:artifact:version`, then the archive's type and classifier where it has them."""
    npm: Annotated[str, StringConstraints(pattern=r"^(@[\w.-]+/)?[\w.-]+@[\w.+-]+$")] | None = None
    """`name@version`."""
    debian: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")] | None = None
    """A package of the Debian suite that `suite` names."""
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")] | None = None
    on_path: Annotated[bool, Field(description="true: the mysqld on PATH")] | None = None
    sha256: Sha256 | None = None
    """Of the archive. Only a URL needs one: the clients of Maven, npm and Debian check what they fetch."""

    @property
    def source(self) -> str | None:
        """The key that says where it comes from, or None where the catalogue does."""
        return next((key for key in SOURCES if getattr(self, key) is not None), None)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in SOURCES if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"a build has one source, not {' and '.join(given)}: keep one of them")
        if not given and self.mysql is None:
            raise ValueError(f'give a version (mysql: "8.0.33") or a source, one of {", ".join(SOURCES)}')
        if self.on_path is False:
            raise ValueError("on_path: true or nothing")
        if self.url is not None and self.sha256 is None:
            raise ValueError("a url needs the archive's sha256 beside it")
        if self.sha256 is not None and self.source not in ("url", "maven", "npm"):
            raise ValueError("sha256 is for an archive (url, maven, npm)")
        if (self.debian is None) != (self.suite is None):
            raise ValueError("debian and suite go together, as in debian: mysql-server-core, suite: sid")
        return self
