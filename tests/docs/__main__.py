"""``python -m tests.docs`` lists the words of every page; it ends with 1 where a limit is passed."""

from .words import as_text, counted, too_long

if __name__ == "__main__":
    counts = counted()
    print(as_text(counts))
    raise SystemExit(bool(too_long(counts)))
