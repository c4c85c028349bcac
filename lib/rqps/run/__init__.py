"""One run, as its notebook does it: open, start, measure, stop, finish."""

from rqps.run.conditions import conditions
from rqps.run.finish import finish
from rqps.run.job import Job, open_run
from rqps.run.measure import Measured, measure
from rqps.run.ready import make_ready
from rqps.run.serve import start, stop

__all__ = ["Job", "Measured", "conditions", "finish", "make_ready", "measure", "open_run", "start", "stop"]
