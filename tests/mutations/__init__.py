"""Changes of one token of the package, and which fast test notices: ``python -m tests.mutations``."""
