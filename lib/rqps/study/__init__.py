"""Reads runs.yaml into typed values, and unfolds a study into its runs, in interleaved random order."""

from rqps.engines import Option
from rqps.engines.asked import BuildSpec, Connections
from rqps.study.reading import read_runs_file
from rqps.study.runs_file import (
    ROUNDS_FOR_A_VERDICT,
    SMALLEST_EFFECT,
    Asks,
    Count,
    Dbms,
    DeviceSpeed,
    HostSpec,
    Parameters,
    PlacementKind,
    RunsFile,
    Some,
    StudySpec,
    build_and_config,
    known_dbms,
    one_of,
    option_files,
)
from rqps.study.unfold import (
    MODES,
    PROFILES,
    TWIN,
    Duet,
    Measured,
    Mode,
    Run,
    builds_of,
    first_rounds,
    has_twin,
    in_words,
    on_host,
    study_of,
    unfold,
    within_budget,
)
