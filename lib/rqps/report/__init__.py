"""Renders executed notebooks as pages, which need no network, no server and no Jupyter."""

from rqps.report.check import check
from rqps.report.one_file import one_file
from rqps.report.site import build
from rqps.report.two_studies import two_studies
