"""runs.yaml as typed values; a study unfolds into runs, in interleaved random order."""

from rqps.study.reading import read_runs_file
from rqps.study.runs_file import (
    SMALLEST_EFFECT,
    BuildSpec,
    ConfigSpec,
    Connections,
    HostSpec,
    Option,
    Parameters,
    PlacementKind,
    RunsFile,
    StudySpec,
)
from rqps.study.unfold import (
    MODES,
    TWIN,
    Mode,
    Run,
    There,
    build_and_config,
    first_rounds,
    in_words,
    on_host,
    study_of,
    unfold,
    within_budget,
)
