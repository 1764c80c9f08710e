"""What an attack on everything that leaves a unit learns, against the epsilon that is claimed.

Two records differ in one time step by as much as is protected. Whoever knows both sees what one unit sends and
decides by the likelihood ratio which one it was. Run ``python -m benchmarks.privacy_attack [N]``; it writes a table.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from skfedcausal import (
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    RandomizedResponse,
)
from skfedcausal.federation import InProcessTransport
from skfedcausal.privacy import epsilon_from_mu, mu_from_epsilon

EPSILON, DELTA, CLIP, RADIUS, ROW = 3.0, 1e-5, 8.0, 3.0, 30
RNG = np.random.default_rng(0)
PRIVATE = {"epsilon": EPSILON, "delta": DELTA, "clip_norm": CLIP, "event_radius": RADIUS}


class Overheard(InProcessTransport):
    """Keeps what the unit "mill" sent last about its states."""

    heard = None

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        if "mill" in out and answers["mill"].op == "states":
            Overheard.heard = answers["mill"].arrays["z"][ROW].copy()
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
    pair = record(60)
    return [[_heard(lambda Y=Y: _estimator().fit(Y)) for _ in range(n)] for Y in pair]


def by_score(n):
    """Messages about another record, after a fit."""
    fitted, pair = _estimator().fit(record(60)[0]), record(60)
    return [[_heard(lambda Y=Y: _again(fitted).score_samples(Y)) for _ in range(n)] for Y in pair]


def by_stream(n):
    """Batches of a stream that a detector follows."""
    detector = FederatedRCADetector(client=client(), privacy=GaussianMechanism(**PRIVATE), transport=Overheard)
    detector.fit(record(2500)[0])
    pair = record(60)

    def watched(Y):
        detector.reset()
        detector.update(Y)

    return [[_heard(lambda Y=Y: watched(Y)) for _ in range(n)] for Y in pair]


def _estimator():
    return FederatedGrangerEstimator(client(), privacy=GaussianMechanism(**PRIVATE), transport=Overheard)


def _again(estimator):
    estimator.privacy.account.forget()  # other noise, another charge
    return estimator


def _heard(ask):
    ask()
    return Overheard.heard


def measured_mu(answers):
    """Mu of the best linear statistic of one half of the draws, measured in the other, and its standard error."""
    (learn0, test0), (learn1, test1) = (np.array_split(np.array(part), 2) for part in answers)
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


def main(n=400):
    """Measure and write the table."""
    warnings.simplefilter("ignore")
    claimed = mu_from_epsilon(EPSILON, DELTA)
    lines = [
        "# Epsilon measured by an attack, through every way out",
        "",
        f"`python -m benchmarks.privacy_attack {n}`: {n} draws of each of two neighbouring records, claimed epsilon = "
        f"{EPSILON:g} at delta = {DELTA:g} (mu = {claimed:.3f}).",
        "",
        "| way out | mu measured | standard error | epsilon measured | claimed | excess in standard errors |",
        "|---|---|---|---|---|---|",
    ]
    for name, way in {"fit": by_fit, "score": by_score, "stream": by_stream}.items():
        mu, error = measured_mu(way(n))
        found, excess = epsilon_from_mu(max(mu, 1e-9), DELTA), (mu - claimed) / error
        lines.append(f"| {name} | {mu:.3f} | {error:.3f} | {found:.2f} | {EPSILON:g} | {excess:+.1f} |")
    found, error = by_flags(200_000)
    lines.append(f"| flags | - | {error:.3f} | {found:.3f} | {EPSILON:g} | {(found - EPSILON) / error:+.1f} |")
    Path(__file__).parent.joinpath("results", "privacy_attack.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
