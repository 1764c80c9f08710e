"""Golden run: every public question of the estimators, and whether its answer is still the one that is stored.

`python -m tests.golden` asks all of them and compares. `questions/` has the records, the fits and what they are asked,
`tolerances.py` how far an answer may be from the stored one and why, `stored/` the answers.
"""
