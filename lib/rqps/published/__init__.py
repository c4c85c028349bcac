"""Reads figures of published studies strictly, recalculates them, and compares them with each other and with ours."""

from rqps.published.figures import Published, read
