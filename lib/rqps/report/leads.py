"""What pages lead on to: of a number that has a profile, to the page that tells where the time goes."""

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from rqps import analysis
from rqps.charts.theme import by_host
from rqps.report.outputs import json_in_html
from rqps.store.read import load

PROFILES = "flamegraph_breakdown"
"""The notebook that others lead on to."""


def looks_closer(notebook: Path) -> bool:
    """Whether a notebook is about runs that looked closer: it says something of a study that has no others, too."""
    return "modes" in json.loads(notebook.read_text(encoding="utf-8"))["metadata"].get("rqps", {})


def profiled_cells(study: str, data: Path, notebooks: Sequence[Path]) -> Markup:
    """For the pages of a study, as JSON: of which steps and dbms there is a profile, and on which page."""
    every = load(study, data, mode=None)
    cells = by_host(analysis.profiled(every.runs, every.steps, every.card.base)).select("step", "dbms", "by")
    if cells.is_empty() or PROFILES not in (notebook.stem for notebook in notebooks):
        return Markup("")
    return json_in_html({"page": f"{PROFILES}.html", "cells": cells.rows()})
