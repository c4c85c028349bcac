"""One folder per analysis notebook, with only its own formulas, columns and sentences."""

from rqps import view as view  # before any page imports altair
