"""Requests to the toy from one client."""
