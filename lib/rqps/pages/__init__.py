"""One folder per analysis notebook, with only its own formulas, columns and sentences."""

from rqps import show as show  # before any page imports altair
