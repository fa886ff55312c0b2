"""Benchmarks: one command each (`python -m benchmarks.NAME`), a table and a figure into `docs/results/`."""
