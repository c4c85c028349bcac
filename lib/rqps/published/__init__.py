"""Reads the numbers of published studies strictly, recalculates them, and compares them with each other and with
numbers that rqps measured."""

from rqps.published.figures import Published, read
