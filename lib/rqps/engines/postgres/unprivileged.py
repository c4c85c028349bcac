"""The user that a server runs as: PostgreSQL refuses to run as root."""

import os
import pwd
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rqps.errors import RqpsError

CANDIDATES = ("postgres", "nobody")
ALLOWED = "+dac_override"
"""The one capability that the server keeps: builds, data and sockets are in folders that only root may enter."""


@dataclass(frozen=True)
class User:
    """A user of this machine that is not root."""

    name: str
    uid: int
    gid: int

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command that runs another program as this user, and kills that program when its parent ends."""
        return (
            *(_setpriv(), f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"),
            *(f"--inh-caps=-all,{ALLOWED}", f"--ambient-caps={ALLOWED}", "--pdeathsig=KILL"),
            "--securebits=+no_setuid_fixup",  # without it, access() would ignore the capability
        )

    def own(self, folder: Path) -> None:
        """Makes this user the owner of a folder and its contents: a server refuses data of another owner."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_user(candidates: Sequence[str] = CANDIDATES) -> User | None:
    """The user to run servers as; None if rqps does not run as root, since the user of rqps can then run them."""
    if os.geteuid() != 0:
        return None
    for name in candidates:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return User(name, entry.pw_uid, entry.pw_gid)
    raise RqpsError(
        f"PostgreSQL does not run as root, and this machine has none of the users {' and '.join(candidates)}",
        fix="run rqps as another user, or make one of these: useradd --system postgres",
    )


def _setpriv() -> str:
    program = shutil.which("setpriv")
    if program is None:
        raise RqpsError(
            "PostgreSQL does not run as root, and setpriv, which runs it as another user, is not on PATH",
            fix="install setpriv (util-linux on Debian and Fedora), or run rqps as another user",
        )
    return program
