"""Tables and figures of the first paper: its numbers, ours in its mode, ours in the default mode.

"Federated Granger Causality Learning for Interdependent Clients with State Space Representation".

The paper states neither its transition matrices (but for A21) nor noise levels, step sizes or lengths, so the
plants here are ours, chosen in the regime that its text describes: a first unit whose level shifts and stays,
driving a second one everywhere by 0.25. One command per table: ``python -m benchmarks.paper1.table3``.
"""
