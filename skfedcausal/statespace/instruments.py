"""What a set point explains of the input that follows it: a part of it that has no hidden cause."""

import numpy as np

from .episodes import episodes

WEAK = 10.0  # F statistic below which an instrument says next to nothing (Staiger and Stock, 1997)
_MOST_LAGS, _ROWS_PER_LAG = 20, 20  # of an instrument that its input follows, and rows of the record for each


def followed_law(u, instrument, starts):
    """How an input follows its instrument: coefficients of it now and in the rows before, and a level."""
    n_lags = int(np.clip(len(u) // _ROWS_PER_LAG, 0, _MOST_LAGS))
    return np.linalg.lstsq(_lagged(instrument, starts, n_lags), u, rcond=1e-10)[0]


def explained(law, instrument, starts):
    """What an instrument explains of its input, by the law that this follows."""
    return _lagged(instrument, starts, len(law) - 2) @ law


def explained_change(law, change, starts):
    """How an input changes when its instrument changes."""
    return _lagged(change, starts, len(law) - 2)[:, :-1] @ law[:-1]


def strength(u, part, n_coefficients):
    """Share of the variance of an input that is explained, and the F statistic of that."""
    total, rest = np.square(u - u.mean()).sum(), np.square(u - part).sum()
    share = 1 - rest / total if total else 0.0
    freedom = max(len(u) - n_coefficients, 1)
    if rest <= 0:
        return 1.0, np.inf
    statistic = (total - rest) / max(n_coefficients - 1, 1) / (rest / freedom)
    return float(np.clip(share, 0.0, 1.0)), float(statistic)


def _lagged(z, starts, n_lags):
    """An instrument now and in the rows before, its first value before an episode, and a level, (n_samples, .)."""
    found = np.ones((len(z), n_lags + 2))
    for start, stop in episodes(starts, len(z)):
        rows = np.arange(start, stop)
        for lag in range(n_lags + 1):
            found[rows, lag] = z[np.maximum(rows - lag, start)]
    return found
