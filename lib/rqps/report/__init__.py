"""Executed notebooks as pages that need nothing else: no network, no server, no notebook."""

from rqps.report.site import build

__all__ = ["build"]
