"""Measures the missing runs of a study, or as many runs as fit its budget, and handles failed runs."""
