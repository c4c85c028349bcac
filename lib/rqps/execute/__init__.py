"""Running a study's runs through papermill: what is missing, one at a time, each whole or not at all."""

from rqps.execute.console import Console
from rqps.execute.run_study import Outcome, run_study
from rqps.execute.state import RunState, state

__all__ = ["Console", "Outcome", "RunState", "run_study", "state"]
