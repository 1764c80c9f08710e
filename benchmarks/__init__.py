"""Benchmarks in asv style, each with a runner that prints a table: ``python -m benchmarks.<name>``.

Timings compare methods side by side in one process; run with ``OMP_NUM_THREADS=1`` and read the ratios.
"""
