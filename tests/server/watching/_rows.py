"""Rows of evidence made by hand."""

import numpy as np

from skfedcausal.server.watching.incidents import Evidence


def evidence(n_rows, n_units, n_states=1, *, first=0, n_statistics=1, **series):
    """Rows in which nothing happens but for the series given."""
    quiet = {
        "scaled": np.zeros((n_rows, n_states)),
        "predicted": np.zeros((n_rows, n_states)),
        "states": np.zeros((n_rows, n_states)),
        "surprise": np.zeros((n_rows, n_units)),
        "given_others": np.zeros((n_rows, n_units)),
        "surplus": np.ones((n_rows, n_units)),
        "outside": np.ones((n_rows, n_units)),
        "absent": np.zeros((n_rows, n_units), dtype=bool),
        "levels": np.zeros((n_rows, n_statistics, n_units)),
        "events": np.zeros((n_rows, n_units), dtype=np.uint8),
        "errors": np.zeros((n_rows, n_states)),
        "distance": np.zeros((n_rows, n_units)),
        "unknown": np.zeros(n_rows, dtype=int),
        "beyond": np.zeros(n_rows),
        "unsure": np.zeros((n_rows, n_units)),
        "rare": np.zeros((n_rows, 0, n_units)),
    }
    return Evidence(first, **(quiet | series))
