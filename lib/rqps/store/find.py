"""Folders of the data, of studies and of runs."""

import os
from pathlib import Path

from rqps.errors import RqpsError

CARD = "study.json"
MANIFEST = "manifest.json"
SET_ASIDE = ".until-"
"""In the name of a study's folder that was set aside, before the time; no study's name has a dot."""


def study_folder(study: str, data: str | Path | None = None) -> Path:
    """The folder of a study: of what was measured here, or else of the committed sample."""
    root = data_folder(data)
    for kind in ("raw", "sample"):
        folder = root / kind / f"study={study}"
        if (folder / CARD).is_file():
            return folder
    there = studies(root)
    raise RqpsError(
        f"{root}: there is no study {study!r}",
        fix=f"give one of: {', '.join(there)}" if there else f"measure it: rqps run {study}",
    )


def studies(root: Path) -> tuple[str, ...]:
    """The names of the studies below a data folder, without those that were set aside as `study=S.until-…`."""
    cards = (*root.glob(f"raw/study=*/{CARD}"), *root.glob(f"sample/study=*/{CARD}"))
    names = {card.parent.name.removeprefix("study=") for card in cards}
    return tuple(sorted(name for name in names if SET_ASIDE not in name))


def data_folder(data: str | Path | None = None) -> Path:
    """The `data` folder: the one given, $RQPS_DATA, or the nearest above the working directory."""
    named = data or os.environ.get("RQPS_DATA")
    if named:
        if not Path(named).is_dir():
            raise RqpsError(f"{named}: there is no such data folder", fix="give the folder that holds raw/")
        return Path(named)
    for above in (Path.cwd(), *Path.cwd().parents):
        if any((above / "data" / kind).is_dir() for kind in ("raw", "sample")):
            return above / "data"
    raise RqpsError(
        f"{Path.cwd()}: no data folder here or above",
        fix="work inside the checkout, or set RQPS_DATA to the folder that holds raw/ and sample/",
    )


def finished_runs(folder: Path) -> tuple[Path, ...]:
    """The folders of a study's runs that have a manifest, in the order of their names."""
    return tuple(sorted(path.parent for path in folder.glob(f"run=*/{MANIFEST}")))


def failed_runs(folder: Path) -> tuple[Path, ...]:
    """The folders of attempts that failed and were kept."""
    return tuple(sorted(path.parent for path in folder.glob(f"failed/run=*/{MANIFEST}")))
