"""An attack on everything that leaves a unit.

Two records differ in one time step by as much as is protected. Whoever knows both sees what one unit sends and decides
by the likelihood ratio which one it was. What such an attack proves is a lower bound of epsilon: the empirical epsilon
of an audit [1]_. The direction that tells the records apart is learned from draws other than those that it is judged
by, so that the estimate is unbiased: it lies above a claim that is kept with nothing to spare in half of all runs.

.. [1] Jagielski, Ullman, Oprea: Auditing differentially private machine learning, NeurIPS 2020.
"""

import random
from unittest.mock import patch

import numpy as np

from skfedcausal import (
    Baseline,
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    RandomizedResponse,
    inspection,
)
from skfedcausal.federation import InProcessTransport
from skfedcausal.privacy import NoiseOptions, epsilon_from_mu

CLIP, RADIUS, ROW = 8.0, 3.0, 30
SURE, BOTH = 2.326, 2.576  # standard errors of a bound, and of two, that hold in 99 % of all runs


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


class Attack:
    """Ways in which something leaves a unit whose promise is `epsilon` at `delta`, each drawn `n` times."""

    def __init__(self, epsilon, delta, n, seed=0):
        self.epsilon, self.delta, self.n, self.rng = epsilon, delta, n, np.random.default_rng(seed)
        self.records = {rows: self._pair(rows) for rows in (60, 2500)}
        self.inputs = {"press": self.rng.normal(size=(60, 1))}

    def _pair(self, n_rows):
        """A record of two units of two sensors each, and its neighbour."""
        Y = {}
        for name in ("mill", "press"):
            Y[name] = self.rng.normal(size=(n_rows, 2))
            for t in range(1, n_rows):
                Y[name][t] += 0.7 * Y[name][t - 1]
        other = {name: X.copy() for name, X in Y.items()}
        other["mill"][ROW, 0] += RADIUS
        return Y, other

    # -- ways out --------------------------------------------------------------------------------------

    def fit(self):
        """First messages of a fit."""
        return self._draws("fit", lambda Y: self._granger().fit(Y))

    def score(self):
        """Messages about another record, after a fit."""
        fitted = self._granger().fit(self.records[60][0])
        return self._draws("message", lambda Y: _again(fitted).score_samples(Y))

    def changed_links(self):
        """The same for the question what has changed."""
        fitted = self._granger().fit(self.records[60][0])
        return self._draws("message", lambda Y: inspection.changed_links(_again(fitted), Y))

    def stream(self):
        """Batches of a stream that a detector follows."""
        detector = FederatedRCADetector(
            client=_client(), privacy=self._mechanism(), communication=Communication(transport=Overheard)
        )
        detector.fit(self.records[2500][0])

        def watched(Y):
            detector.reset()
            _again(detector).update(Y)

        return self._draws("watch", watched)

    def forecast(self):
        """Messages that the bands of a forecast come from."""
        fitted, ask = self._with_inputs(), {"inputs": self.inputs, "confidence": 0.9}
        return self._draws("message", lambda Y: _again(fitted).forecast(Y, 50, **ask))

    def impact(self):
        """The record that the effect of a move is set beside."""
        fitted, ask = self._with_inputs(), ({"press__u0": 0.0}, (20, 40))
        return self._draws("factual", lambda Y: _again(fitted).impact(Y, *ask, inputs=self.inputs))

    def reach(self):
        """Messages about the rows before a plan."""
        ask = {"inputs": ["press__u0"], "bounds": {"press__u0": (-5.0, 5.0)}, "by": 5, "record_inputs": self.inputs}
        fitted = self._with_inputs()
        return self._draws("message", lambda Y: inspection.reach(_again(fitted), {"press__x0": 1.0}, X=Y, **ask))

    def _mechanism(self):
        promise = {"epsilon": self.epsilon, "delta": self.delta, "clip_norm": CLIP, "event_radius": RADIUS}
        return GaussianMechanism(noise=NoiseOptions(sampler="float-grid"), **promise)

    def _granger(self):
        return FederatedGrangerEstimator(
            _client(), privacy=self._mechanism(), communication=Communication(transport=Overheard)
        )

    def _with_inputs(self):
        estimator, U = FederatedCounterfactualEstimator(_client()), self.rng.normal(size=(300, 1))
        estimator.set_params(privacy=self._mechanism(), communication=Communication(transport=Overheard))
        return estimator.fit(self._pair(300)[0], inputs={"press": U})

    # -- what is heard ---------------------------------------------------------------------------------

    def _draws(self, op, ask):
        """What an operation sends about each of two records, drawn again and again."""
        with patch.object(Overheard, "listened", op):
            return [[_heard(ask, Y) for _ in range(self.n)] for Y in self.records[60]]

    def bounds(self, way):
        """Epsilon that is measured at least, estimated, and at most."""
        mu, error = measured_mu(getattr(self, way)())
        sides = (mu - SURE * error, mu, mu + BOTH * error)
        return [epsilon_from_mu(max(side, 1e-9), self.delta) for side in sides]

    def flag_bounds(self, n):
        """The same of randomised pairs of flags, from counts."""
        none, both = np.zeros((n, 2), dtype=bool), np.ones((n, 2), dtype=bool)
        response = [RandomizedResponse(epsilon=self.epsilon).release({"mill": one})["mill"] for one in (none, both)]
        kept, moved = (((pairs @ [2, 1]) == 0).mean() for pairs in response)
        found, error = np.log(kept / moved), np.sqrt((1 / kept + 1 / moved) / n)
        return [found - SURE * error, found, found + BOTH * error]


def _client():
    """A client that takes nothing from the record: two sensors show two states as they are."""
    return KalmanClient(
        A=0.7 * np.eye(2), C=np.eye(2), Q=np.eye(2), R=0.1 * np.ones(2), n_states=2, baseline=Baseline(center=False)
    )


def _again(estimator):
    estimator.privacy.account.forget()  # other noise, another charge
    estimator.privacy.account._charges.clear()  # what all draws cost together is no matter here
    return estimator


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


def seeded(seed):
    """Noise without a seed, which the operating system draws, repeats within this context."""
    return patch("secrets.randbits", random.Random(seed).getrandbits)
