"""A user's own statements, on tables that come as a dump."""
