"""Executed notebooks as pages that need nothing else: no network, no server, no notebook."""

from rqps.report.check import check
from rqps.report.one_file import one_file
from rqps.report.site import build
from rqps.report.two_studies import two_studies
