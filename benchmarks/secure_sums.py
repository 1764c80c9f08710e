"""Secure sums beside open messages: bytes, seconds, rounds, what is learned, and what the sums tell.

``python -m benchmarks.secure_sums``
"""

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.secure import SecureSumsServer
from skfedcausal.server.plant import ServerLearner
from skfedcausal.statespace.ring import rounding_error

from ._report import table, write
from ._timing import side_by_side

_ROWS, _STATES, _LAGS = 5000, 2, 12
_QUESTIONS = {
    "`links_`, `correlations_`, `transition_`, `process_cov_`": (True, "the same but for the faded rows"),
    "`link_intervals`, `spectrum`": (True, "the same but for the faded rows"),
    "`server_.screen`": (True, "without messages, from the same sums"),
    "level shifts (`level_shifts='auto'`)": (False, "need rows"),
    "`covariance='sandwich'`, `'hac'`": (False, "need rows"),
    "records with gaps, plants with inputs": (False, "refused: sums do not suffice"),
    "`predict`, `forecast`, `transform`, `score`, `score_samples`": (False, "need rows"),
    "`test_links`, `benefit`, `lag_orders`, `lagged_links`, resampling": (False, "need rows"),
    "counterfactuals, incidents, monitoring": (False, "need rows"),
    "units' augmenters (`predict(model='augmented')`)": (False, "no reply goes to the units"),
}


def row(n_units):
    """One plant fitted in both ways."""
    chain = [(k, k + 1) for k in range(0, n_units - 1, 2)]
    X, _ = make_granger_plant(n_units, n_samples=_ROWS, n_states=_STATES, links=chain, random_state=0)
    servers: dict[str, ServerLearner] = {
        "open": LikelihoodServer(level_shifts=None),
        "secure": SecureSumsServer(n_lags=_LAGS),
    }
    fits = {
        kind: FederatedGrangerEstimator(KalmanClient(n_states=_STATES), server=server)
        for kind, server in servers.items()
    }
    seconds = side_by_side({kind: (lambda fit=fit: fit.fit(X)) for kind, fit in fits.items()}, repeats=3)
    openly, secret = (fits[kind].links_ for kind in ("open", "secure"))
    apart = ((openly["strength"] - secret["strength"]).abs() / openly["stderr"]).max()
    sent = {kind: fit.communication_ for kind, fit in fits.items()}
    equations = (2 * _LAGS + 3) * _STATES * (n_units - 1) + (_LAGS + 2) * _STATES
    return {
        "units": n_units,
        "seconds, open": f"{seconds['open']:.2f}",
        "seconds, secure": f"{seconds['secure']:.2f}",
        "MB up, open": f"{sent['open']['bytes_up'] / 1e6:.2f}",
        "MB up, secure": f"{sent['secure']['bytes_up'] / 1e6:.2f}",
        "MB down, open": f"{sent['open']['bytes_down'] / 1e6:.2f}",
        "MB down, secure": f"{sent['secure']['bytes_down'] / 1e6:.2f}",
        "rounds": f"{sent['open']['rounds']} / {sent['secure']['rounds']}",
        "verdicts that differ": int((openly["verdict"] != secret["verdict"]).sum()),
        "strengths, standard errors apart": f"{apart:.2f}",
        "equations / rows": f"{equations / _ROWS:.0%}",
    }


def main():
    """Write the tables."""
    rows = [row(n_units) for n_units in (4, 8, 16)]
    stays = [
        {"answer": answer, "stays": "yes" if kept else "no", "why": why} for answer, (kept, why) in _QUESTIONS.items()
    ]
    write(
        "secure_sums",
        "Secure sums",
        f"{_ROWS:,} rows, {_STATES} states a unit, {_LAGS} lags, everything in one process, seconds of a whole fit "
        "with the identification of all units (best of three). Open: `LikelihoodServer(level_shifts=None)`, to which "
        "the units send their states. Secure: `SecureSumsServer()`, with the dealer's packets among the bytes. Bytes "
        "down grow with the square of the number of units, because every unit gets the masked series of all others.",
        table(rows),
        "Strengths differ because the first and last hundredth of an episode are faded; from the same faded scores "
        f"they differ by rounding, at most {rounding_error(_ROWS):.0e} of a correlation. Equations / rows: what the "
        "server and all units but one would know together about each series of the one left, as a share of its rows; "
        "a unit refuses above one half.",
        "Which answers stay:",
        table(stays),
    )


if __name__ == "__main__":
    main()
