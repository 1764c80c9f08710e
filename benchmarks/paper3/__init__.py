"""The third paper: its numbers, ours in its mode, ours in the default mode.

"Learning Unknown Interdependencies for Decentralized Root Cause Analysis in Nonlinear Dynamical Systems".
``python -m benchmarks.paper3`` makes every table by ``settings.toml``, ``--small`` checks published figures.
"""
