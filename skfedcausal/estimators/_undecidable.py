"""Links that added noise leaves undecided: a state that it hides may drive both ends of any of them."""

import warnings

import numpy as np

from ..containers.layout import listed
from ..privacy.errors import UtilityWarning
from ..statespace.matrices import companion
from ..statespace.riccati import stationary_covariance

_SHARE = 0.1  # a state with less of the strongest one's variance may stay unseen
_TESTS = ("p_value", "p_adjusted", "p_holm", "p_fdr")


def undecidable_units(server, noise, clients):
    """Units of which added noise may hide a state that matters.

    A direction of the sensors' covariance rises above white noise of a record of T rows and D sensors only
    if its signal-to-noise ratio exceeds ``sqrt(D / T)`` [1]_. A unit is obscured if a state with a tenth of
    the variance of its strongest one would stay below that.
    """
    if not noise or not hasattr(server, "unshrunk_transition_"):
        return ()
    states = _state_covariance(server)
    hidden = []
    for name, rows in server.state_slices_.items():
        client = clients.get(name)
        searched = client is None or (client.n_states == "auto" and client.C is None)
        if name in noise and searched:
            strongest = np.linalg.eigvals(server.information_[rows, rows] @ states[rows, rows]).real.max()
            if _SHARE * strongest < np.sqrt(len(noise[name]) / server.n_samples_):
                hidden.append(name)
    return tuple(hidden)


def _state_covariance(server):
    """Stationary covariance of the states of a plant of any number of lags, (n, n)."""
    lags, Q = getattr(server, "lag_transitions_", ()), server.process_cov_
    if len(lags) < 2:
        return stationary_covariance(server.unshrunk_transition_, Q)
    n = len(Q)
    noise = np.zeros((n * len(lags),) * 2)
    noise[:n, :n] = Q
    return stationary_covariance(companion(np.hstack(list(lags)), len(lags)), noise)[:n, :n]


def undecided(table, units):
    """Table of links in which no test rejects, since noise may hide states of `units`."""
    if not units:
        return table
    tests = {column: 1.0 for column in _TESTS if column in table}
    verdict = {"verdict": "cannot tell"} if "verdict" in table else {}
    return table.assign(**tests, **verdict)


def warn_undecidable(units):
    """Say that no link can be told, and what would help."""
    if units:
        warnings.warn(
            f"The noise on {listed(units)} may hide a state with a tenth of the variance of the strongest. It could "
            "drive both ends of any link: no test is valid, and every link is undecided. Use a larger epsilon, a "
            "smaller event_radius or a longer record.",
            UtilityWarning,
            stacklevel=6,
        )
