"""Measures the runs of a study: decides which runs are missing, in which order they are measured and what fits a
budget, and handles failed runs."""
