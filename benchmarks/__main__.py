"""``python -m benchmarks GROUP``: the tables of a group, made again, checked or written as pages."""

from ._pages import main

if __name__ == "__main__":
    raise SystemExit(main())
