"""Tables and figures of the second paper: its numbers, ours in its mode, ours in the default mode.

"Federated Causal Representation Learning in State-Space Systems for Decentralized Counterfactual Reasoning".
"""
