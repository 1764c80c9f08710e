"""The parts of ``python -m skfedcausal watch``: settings, state, loop, those who are told, pages."""
