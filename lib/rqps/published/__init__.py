"""Reads published numbers strictly, recalculates them, and compares them with each other and with rqps's numbers."""

from rqps.published.figures import Published, read
