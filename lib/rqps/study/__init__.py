"""runs.yaml as typed values; a study unfolds into runs, in interleaved random order."""

from rqps.study.builds import BuildSpec
from rqps.study.configs import ConfigSpec, Option
from rqps.study.read import read_runs_file
from rqps.study.runs_file import RunsFile, StudySpec
from rqps.study.unfold import Run, first_rounds, study_of, unfold

__all__ = [
    "BuildSpec",
    "ConfigSpec",
    "Option",
    "Run",
    "RunsFile",
    "StudySpec",
    "first_rounds",
    "read_runs_file",
    "study_of",
    "unfold",
]
