"""The third paper's tables: federated root cause analysis of nonlinear plants.

Each module makes one table of ``benchmarks/results/paper3/``.
"""
