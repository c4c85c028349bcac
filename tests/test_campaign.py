"""Twenty faults of the campaign; all of it is `tests/campaign.py`, whose table is in docs/faults.md."""

import subprocess
import sys
from pathlib import Path

import pytest
from campaign import COMMANDS, PHASES, faults

pytestmark = pytest.mark.live
OF_DUETS = [kind for kind, command in COMMANDS.items() if "duet" in kind or command[0] != "run"]


def test_after_a_fault_nothing_is_left_and_nothing_is_lost(short: Path) -> None:
    """Two campaigns share them out, each by studies of its own, since they mostly wait."""
    campaigns = []
    for kinds in (OF_DUETS, [*COMMANDS.keys() - {*OF_DUETS}]):
        asked = ["--faults", "20", "--folder", str(short / str(len(kinds))), "--only", *kinds]
        command = [sys.executable, str(Path(__file__).with_name("campaign.py")), *asked]
        campaigns.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [each.communicate()[0] for each in campaigns]
    assert [each.returncode for each in campaigns] == [0, 0], "\n".join(said)
    assert sum(words.count(": SIG") for words in said) == 20, "\n".join(said)


def test_a_campaign_can_be_repeated_and_leaves_nothing_out() -> None:
    every = list(faults(200, seed=16))
    assert every == list(faults(200, seed=16))
    assert every[:20] == list(faults(20, seed=16)) != list(faults(20, seed=17))
    assert {each.phase for each in every[:20]} == PHASES.keys()
    assert {each.kind for each in every[:20]} == COMMANDS.keys()
