"""The first paper: its numbers, ours in its mode, ours in the default mode.

"Federated Granger Causality Learning for Interdependent Clients with State Space Representation".
``python -m benchmarks.paper1`` makes every table by ``settings.toml``, ``--small`` checks published figures.
"""
