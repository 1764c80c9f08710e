"""What a fitted plant says about its links: tests, intervals, verdicts, benefit."""
