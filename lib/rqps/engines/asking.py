"""What a program says when it is asked for no more than that: its version, its help."""

import subprocess
from collections.abc import Mapping, Sequence

SECONDS_TO_ANSWER = 60


def ask(command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end, its two streams in one. `environment` is all that it gets."""
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS_TO_ANSWER,
    )


def said(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What it says, or why it says nothing."""
    try:
        return ask(command, environment).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
