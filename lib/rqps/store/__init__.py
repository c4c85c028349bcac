"""The raw tables: one schema each, written whole, read lazily."""

from rqps.store.manifest import Manifest, Placement, StudyCard, Warning_
from rqps.store.read import Study, load, load_run, read_manifest, read_study_card
from rqps.store.write import write_manifest, write_study_card, write_table

__all__ = [
    "Manifest",
    "Placement",
    "Study",
    "StudyCard",
    "Warning_",
    "load",
    "load_run",
    "read_manifest",
    "read_study_card",
    "write_manifest",
    "write_study_card",
    "write_table",
]
