"""The raw tables: one schema each, written atomically, read lazily."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rqps.store.manifest import Manifest, Placement, StudyCard, Warning_, read_manifest, read_study_card

if TYPE_CHECKING:
    from rqps.store.read import Study, load, load_run
    from rqps.store.write import write_manifest, write_study_card, write_table

__all__ = ["Manifest", "Placement", "Study", "StudyCard", "Warning_", "load", "load_run", "read_manifest"]
__all__ += ["read_study_card", "write_manifest", "write_study_card", "write_table"]


def __getattr__(name: str) -> Any:
    # polars takes a third of a second to import, and commands that read no tables do not need it.
    if name not in __all__:
        raise AttributeError(f"module 'rqps.store' has no attribute {name!r}")
    return getattr(import_module("rqps.store.write" if name.startswith("write") else "rqps.store.read"), name)
