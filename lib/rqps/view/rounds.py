"""Moved to `rows`; this door closes when its last user has moved."""

from rqps.stats import most_changed as most_changed
