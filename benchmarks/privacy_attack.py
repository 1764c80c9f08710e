"""What an attack on everything that leaves a unit learns, against the epsilon that is claimed.

Two records differ in one time step by as much as is protected. Whoever knows both sees what one unit sends and
decides by the likelihood ratio which one it was. What such an attack proves is a lower bound of epsilon: the empirical
epsilon of an audit [1]_. The estimate itself has no bias that matters - the direction that tells the records apart is
learned from draws other than those that it is judged by - and therefore lies above a claim that is kept with nothing
to spare in half of all runs. Run ``python -m benchmarks.privacy_attack [N]``; it writes a table.

.. [1] Jagielski, Ullman, Oprea: Auditing differentially private machine learning, NeurIPS 2020.
"""

import sys
import warnings

import numpy as np

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    RandomizedResponse,
)
from skfedcausal.federation import InProcessTransport
from skfedcausal.privacy import epsilon_from_mu, mu_from_epsilon

from ._report import table, write

EPSILON, DELTA, CLIP, RADIUS, ROW = 3.0, 1e-5, 8.0, 3.0, 30
LEAST, FOUND = "empirical epsilon (at least, 99 %)", "estimate (99 % of runs)"
SURE, BOTH = 2.326, 2.576  # standard errors of a bound, and of two, that hold in 99 % of all trials
RNG = np.random.default_rng(0)
PRIVATE = {"epsilon": EPSILON, "delta": DELTA, "clip_norm": CLIP, "event_radius": RADIUS}


class Heard(Exception):
    """What the unit "mill" sent about its states: the attack needs nothing that comes after."""


class Overheard(InProcessTransport):
    """Ends with the answer of "mill" to an operation, once somebody listens."""

    listened: str | None = None

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        if "mill" in out and out["mill"].op == Overheard.listened:
            said = answers["mill"].arrays
            raise Heard(said["z" if "z" in said else "values"][ROW].copy())
        return answers


def record(n_samples):
    """A record of two units of two sensors each, and its neighbour."""
    Y = {}
    for name in ("mill", "press"):
        X = RNG.normal(size=(n_samples, 2))
        for t in range(1, n_samples):
            X[t] += 0.7 * X[t - 1]
        Y[name] = X
    other = {name: X.copy() for name, X in Y.items()}
    other["mill"][ROW, 0] += RADIUS
    return Y, other


def client():
    """A client that takes nothing from the record: two sensors show two states as they are."""
    return KalmanClient(A=0.7 * np.eye(2), C=np.eye(2), Q=np.eye(2), R=0.1 * np.ones(2), n_states=2, center=False)


def by_fit(n):
    """First messages of a fit."""
    return _draws(record(60), "fit", lambda Y: _estimator().fit(Y), n)


def by_score(n):
    """Messages about another record, after a fit."""
    fitted = _estimator().fit(record(60)[0])
    return _draws(record(60), "message", lambda Y: _again(fitted).score_samples(Y), n)


def by_changed_links(n):
    """The same for the question what has changed."""
    fitted = _estimator().fit(record(60)[0])
    return _draws(record(60), "message", lambda Y: _again(fitted).changed_links(Y), n)


def by_stream(n):
    """Batches of a stream that a detector follows."""
    detector = FederatedRCADetector(client=client(), privacy=GaussianMechanism(**PRIVATE), transport=Overheard)
    detector.fit(record(2500)[0])

    def watched(Y):
        detector.reset()
        _again(detector).update(Y)

    return _draws(record(60), "watch", watched, n)


def _with_inputs():
    """An estimator with an input, its record, and the inputs of 60 rows."""
    U = {"press": RNG.normal(size=(300, 1))}
    settings = {"privacy": GaussianMechanism(**PRIVATE), "transport": Overheard}
    return FederatedCounterfactualEstimator(client(), **settings).fit(record(300)[0], inputs=U), {
        "press": U["press"][:60]
    }


def by_forecast(n):
    """Messages that the bands of a forecast come from."""
    fitted, U = _with_inputs()
    ask = {"inputs": U, "confidence": 0.9}
    return _draws(record(60), "message", lambda Y: _again(fitted).forecast(Y, 50, **ask), n)


def by_impact(n):
    """The record that the effect of a move is set beside."""
    fitted, U = _with_inputs()
    return _draws(record(60), "factual", lambda Y: _again(fitted).impact(Y, {"press__u0": 0.0}, (20, 40), inputs=U), n)


def by_reach(n):
    """Messages about the rows before a plan."""
    fitted, U = _with_inputs()
    ask = {"inputs": ["press__u0"], "bounds": {"press__u0": (-5.0, 5.0)}, "by": 5, "record_inputs": U}
    return _draws(record(60), "message", lambda Y: _again(fitted).reach({"press__x0": 1.0}, X=Y, **ask), n)


def _estimator():
    return FederatedGrangerEstimator(client(), privacy=GaussianMechanism(**PRIVATE), transport=Overheard)


def _again(estimator):
    estimator.privacy.account.forget()  # other noise, another charge
    estimator.privacy.account._charges.clear()  # what all draws cost together is no matter here
    return estimator


def _draws(pair, op, ask, n):
    """What an operation sends about each of two records, drawn again and again."""
    Overheard.listened = op
    drawn = [[_heard(ask, Y) for _ in range(n)] for Y in pair]
    Overheard.listened = None
    return drawn


def _heard(ask, Y):
    try:
        ask(Y)
    except Heard as heard:
        return heard.args[0]
    raise RuntimeError("Nothing was sent.")


def measured_mu(answers):
    """Mu of the best linear statistic and its standard error, every half of the draws judged by the other."""
    halves = [np.array_split(np.array(part), 2) for part in answers]
    found = np.array([_judged(*(part[::turn] for part in halves)) for turn in (1, -1)])
    return found[:, 0].mean(), np.sqrt(np.square(found[:, 1]).sum()) / len(found)


def _judged(draws0, draws1):
    """Mu of the statistic that the first half of the draws shows, in the second half, and its standard error."""
    (learn0, test0), (learn1, test1) = draws0, draws1
    spread = np.cov(np.vstack([learn0 - learn0.mean(0), learn1 - learn1.mean(0)]).T)
    direction = np.linalg.solve(spread, learn1.mean(0) - learn0.mean(0))
    a, b = test0 @ direction, test1 @ direction
    std = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    mu = (b.mean() - a.mean()) / std
    return mu, np.sqrt(2 / len(a) + mu**2 / (4 * len(a)))


def by_flags(n):
    """Randomised pairs of flags: epsilon measured from counts, and its standard error."""
    none, both = np.zeros((n, 2), dtype=bool), np.ones((n, 2), dtype=bool)
    codes = [RandomizedResponse(epsilon=EPSILON).release({"mill": one})["mill"] @ [2, 1] for one in (none, both)]
    kept, moved = (codes[0] == 0).mean(), (codes[1] == 0).mean()
    return np.log(kept / moved), np.sqrt((1 / kept + 1 / moved) / n)


WAYS = {"fit": by_fit, "score": by_score, "stream": by_stream, "changed_links": by_changed_links}
WAYS |= {"forecast": by_forecast, "impact": by_impact, "reach": by_reach}
if not hasattr(FederatedGrangerEstimator, "changed_links"):  # it asks as `score` does
    del WAYS["changed_links"]


def _epsilon(mu):
    return epsilon_from_mu(max(mu, 1e-9), DELTA)


def main(n=4000):
    """Measure and write the table."""
    warnings.simplefilter("ignore")
    claimed, rows = mu_from_epsilon(EPSILON, DELTA), []
    for name, way in WAYS.items():
        mu, error = measured_mu(way(n))
        rows.append(
            {
                "way out": name,
                LEAST: f"{_epsilon(mu - SURE * error):.2f}",
                FOUND: f"{_epsilon(mu):.2f} ({_epsilon(mu - BOTH * error):.2f} to {_epsilon(mu + BOTH * error):.2f})",
                "mu": f"{mu:.3f} ± {error:.3f}",
            }
        )
    found, error = by_flags(400_000)
    rows.append(
        {
            "way out": "flags",
            LEAST: f"{found - SURE * error:.3f}",
            FOUND: f"{found:.3f} ({found - BOTH * error:.3f} to {found + BOTH * error:.3f})",
            "mu": "-",
        }
    )
    write(
        "privacy_attack",
        "Epsilon measured by an attack, through every way out",
        f"{n} draws of each of two neighbouring records, claimed epsilon = {EPSILON:g} at delta = {DELTA:g} (mu = "
        f"{claimed:.3f}). Empirical epsilon: what the attack proves, a lower bound that holds in 99 % of all runs; a "
        "claim is broken where it is above the claim. The noise is exactly as large as the claim needs, so that "
        "estimates, which have no bias, lie on both sides of the claim, which 99 % of their intervals hold. "
        "`changed_links` asks as `score` does and has a row of its own where the estimators have it.",
        table([row | {"claimed": f"{EPSILON:g}"} for row in rows]),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
