"""Measures the missing runs of a study in their order, as many as fit a budget, and handles failed runs."""
