"""A study that was taken apart, with its levels, which are studies beside it."""

from pathlib import Path

from rqps.store.find import CARD, data_folder, study_folder
from rqps.store.read import Study, load
from rqps.study import Mode


def load_levels(study: str, data: str | Path | None = None, mode: Mode = "throughput") -> tuple[Study, ...]:
    """The study, then its levels in their order as far as they were measured in that mode."""
    root = data_folder(data)
    found = [load(study, root, mode)]
    beside = study_folder(study, root).parent
    while (beside / f"study={study}-{len(found)}" / CARD).is_file():
        found.append(load(f"{study}-{len(found)}", root, mode))
    return tuple(each for each in found if not each.runs.is_empty())
