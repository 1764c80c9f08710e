"""The second paper: its numbers, ours in its mode, ours in the default mode.

"Federated Causal Representation Learning in State-Space Systems for Decentralized Counterfactual Reasoning".
``python -m benchmarks.paper2`` makes every table by ``settings.toml``, ``--small`` checks published figures.
"""
