"""Twenty faults of the campaign; all of it is `tests/campaign.py`, whose table is in docs/faults.md."""

import subprocess
import sys
from pathlib import Path

import pytest
from campaign import COMMANDS, PHASES, faults

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("undrawn")]
SHARES = [["inserts", "db-bench"], ["rounds", "lookups"], ["try", "bisect", "import"]]
SHARES.append([kind for kind in COMMANDS if not any(kind in share for share in SHARES)])


def test_after_a_fault_nothing_is_left_and_nothing_is_lost(short: Path) -> None:
    """Four campaigns share them out, each by studies of its own, since they mostly wait."""
    campaigns = []
    for kinds in SHARES:
        asked = ["--faults", "20", "--folder", str(short / kinds[0]), "--only", *kinds]
        command = [sys.executable, str(Path(__file__).with_name("campaign.py")), *asked]
        campaigns.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    lines = [campaign.communicate()[0] for campaign in campaigns]
    assert [campaign.returncode for campaign in campaigns] == [0] * len(SHARES), "\n".join(lines)
    assert sum(words.count(": SIG") for words in lines) == 20, "\n".join(lines)


def test_a_campaign_can_be_repeated_and_leaves_nothing_out() -> None:
    every = list(faults(200, seed=16))
    assert every == list(faults(200, seed=16))
    assert every[:20] == list(faults(20, seed=16)) != list(faults(20, seed=17))
    assert {one.phase for one in every[:20]} == PHASES.keys()
    assert {one.kind for one in every[:20]} == COMMANDS.keys()
