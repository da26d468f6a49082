"""Thin Prefect tasks around the service: what is tried, seen and logged as one step of a run."""
