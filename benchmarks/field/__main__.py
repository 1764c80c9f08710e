"""``python -m benchmarks.field``: every method on every regime."""

from .._paper import main

if __name__ == "__main__":
    raise SystemExit(main("field"))
