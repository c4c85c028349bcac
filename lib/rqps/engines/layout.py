"""Where things are in a tree with a server in it: an unpacked release, a Debian package, a build tree."""

from dataclasses import dataclass
from pathlib import Path

BINARIES = (
    "bin",
    "sbin",
    "libexec",
    "usr/sbin",
    "usr/bin",
    "runtime_output_directory",
    "runtime_output_directory/bin",
    "sql",
    ".",
)
MESSAGES = ("share", "share/mysql", "sql/share")
PLUGINS = ("lib/plugin", "lib64/mysql/plugin", "lib/mysql/plugin", "plugin_output_directory")
EMPTY_DATA = "data/mysql"


@dataclass(frozen=True)
class Layout:
    base: Path
    """What mysqld calls its basedir."""
    mysqld: Path
    messages: Path | None
    plugins: Path | None
    empty_data: Path | None

    @property
    def options(self) -> tuple[str, ...]:
        """What a server needs to be told that does not lie where it was compiled for."""
        found = {"lc-messages-dir": self.messages, "plugin-dir": self.plugins}
        return tuple(f"--{option}={folder}" for option, folder in found.items() if folder)


def layout(tree: Path) -> Layout | None:
    """The server in a tree, or in the one folder that a tree consists of; None where there is none."""
    for place in (tree, *_only_folders(tree)):
        for binaries in BINARIES:
            mysqld = place / binaries / "mysqld"
            if mysqld.is_file() and mysqld.stat().st_mode & 0o111:
                return _around(place / "usr" if binaries.startswith("usr/") else place, mysqld)
    return None


def _only_folders(tree: Path) -> list[Path]:
    """The folders that an archive wraps around its content, as in mysql-8.0.40-linux/ or package/server/."""
    folders: list[Path] = []
    while len(inside := sorted(path for path in tree.iterdir() if path.is_dir())) == 1:
        tree = inside[0]
        folders.append(tree)
        if len(folders) == 2:
            break
    return folders


def _around(base: Path, mysqld: Path) -> Layout:
    messages = next((base / name for name in MESSAGES if (base / name / "english/errmsg.sys").is_file()), None)
    plugins = next((base / name for name in PLUGINS if (base / name).is_dir()), None)
    empty = base / EMPTY_DATA
    return Layout(base, mysqld, messages, plugins, empty if (empty / "ibdata1").is_file() else None)
