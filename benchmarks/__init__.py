"""Published tables: ``python -m benchmarks GROUP`` makes a group's again, ``python -m benchmarks.standing`` sums up.

A group is a folder with `settings.toml`, a table one of its modules; `_pages.py` says how they are written. Figures
and pages are in `results/`. Run with ``OMP_NUM_THREADS=1``.
"""
