"""The name of this machine, as it stands in the name of a run."""

import re
import socket


def this_host() -> str:
    """The host's short name, in letters that a folder's name may have."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0]) or "localhost"
