"""Runs a user's own statements, on tables from a dump or on generated tables."""
