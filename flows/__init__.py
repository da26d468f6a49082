"""Prefect flows: order, concurrency and hooks, nothing else."""
