"""``python -m benchmarks.paper3``: every table and figure of the paper."""

from .._paper import main

if __name__ == "__main__":
    raise SystemExit(main("paper3"))
