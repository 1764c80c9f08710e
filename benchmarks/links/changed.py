"""What has changed: how often links that change are found and named, and how often it is a false alarm."""

import numpy as np
from scipy import stats

from skfedcausal import FederatedGrangerEstimator, inspection
from skfedcausal.statespace.matrices import spectral_radius

from .._rivals import Autoregression, components

TITLE = "Links that have changed"
TEXT = (
    "Plants of 6 to 10 units of two states behind six sensors, one link a unit, learned from {learned} rows; {plants}"
    " plants for each strength, seeds from 0 on. New records have {before} rows as learned and {after} after a "
    "change: the gain of a link halved (weaker), a link lost, a new one, one that acts three rows later (delayed), or"
    " none. A false alarm is any other pair that is said to have changed (alpha = 0.05). The other tool is a VAR(4) "
    "on every unit's two first components, of the learned and of the new record, with Wald tests of the difference of"
    " every block and Bonferroni's rule; it has no names of changes. The limit sees the states without noise and "
    "knows the plant, the date and the sort of change: its chance to find the one among all links (or all pairs "
    "without one)."
)
ALPHA = 0.05
CHANGES = ("none", "weaker", "lost", "new", "delayed")
_STATES, _SENSORS, _WARM = 2, 6, 100
_MOVES = 5  # rows by which a link may move


class Plant:
    """Units of two states each with links of one lag; sensors have half the noise of the process."""

    def __init__(self, rng, n_units, strength):
        self.rng, self.n_units, self.strength = rng, n_units, strength
        self.C = [rng.standard_normal((_SENSORS, _STATES)) for _ in range(n_units)]
        self.A, self.pairs = self._draw()

    def _draw(self):
        """Transition matrix with about one link a unit, and its pairs (effect, cause)."""
        every = [(m, n) for m in range(self.n_units) for n in range(self.n_units) if m != n]
        while True:
            A, pairs = np.zeros((self.n_units * _STATES,) * 2), []
            for m in range(self.n_units):
                angle, size = self.rng.uniform(0, 0.5), self.rng.uniform(0.4, 0.8)
                turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
                A[block(m, m)] = size * np.array(turn)
            for k in self.rng.permutation(len(every))[: self.n_units]:
                A[block(*every[k])] = self.link()
                pairs.append(every[k])
            if spectral_radius(A) < 0.93:
                return A, pairs

    def link(self):
        """A block whose norm is in the range of strengths."""
        B = self.rng.standard_normal((_STATES, _STATES))
        return B * self.rng.uniform(*self.strength) / np.linalg.norm(B)

    def changed(self, what):
        """Coefficients of four lags after a change, and the names of its cause and effect."""
        while True:
            lags = np.zeros((4, *self.A.shape))
            lags[0] = self.A
            pair = self.pairs[self.rng.integers(len(self.pairs))]
            if what == "weaker":
                lags[0][block(*pair)] *= 0.5
            elif what == "lost":
                lags[0][block(*pair)] = 0.0
            elif what == "delayed":
                lags[3][block(*pair)], lags[0][block(*pair)] = self.A[block(*pair)], 0.0
            elif what == "new":
                others = [(m, n) for m in range(self.n_units) for n in range(self.n_units) if m != n]
                others = [other for other in others if other not in self.pairs]
                pair = others[self.rng.integers(len(others))]
                lags[0][block(*pair)] = self.link()
            if spectral_radius(lags[0]) < 0.97:
                return lags, (f"unit{pair[1]}", f"unit{pair[0]}")

    def record(self, *parts):
        """Measurements of consecutive stretches ``(lags, n_rows)``."""
        return self.sensors(self.states(*parts))

    def states(self, *parts):
        """States of consecutive stretches ``(lags, n_rows)``."""
        n, total = len(self.A), sum(rows for _, rows in parts) + _WARM
        plan = [(parts[0][0], _WARM), *parts]
        h, t = np.zeros((total, n)), 0
        for lags, rows in plan:
            for t in range(t, t + rows):  # noqa: B020
                past = sum(A @ h[t - k] for k, A in enumerate(lags, 1) if t >= k)
                h[t] = past + self.rng.standard_normal(n)
            t += 1
        return h[_WARM:]

    def sensors(self, h):
        """What sensors say of states."""
        noise = self.rng.standard_normal((self.n_units, len(h), _SENSORS)) / 2
        return {f"unit{m}": h[:, 2 * m : 2 * m + 2] @ C.T + noise[m] for m, C in enumerate(self.C)}


def block(effect, cause):
    """Place of a link in a transition matrix."""
    return np.s_[_STATES * effect : _STATES * (effect + 1), _STATES * cause : _STATES * (cause + 1)]


def oracle(plant, h, before, lags, what):
    """Chance that somebody finds a change who sees the states `h` and knows the plant, the date and the sort of change.

    Not known is which of all links, or, of a new one, of all other pairs: Bonferroni's rule over them and the rows
    by which a link may move.
    """
    changed = lags.copy()
    changed[0] -= plant.A
    signal = sum(h[before - k : -k] @ A.T for k, A in enumerate(changed, 1))
    size, n_links = np.square(signal).sum(), len(plant.pairs)  # states have noise of unit variance
    if what == "new":
        n_elements, n_pairs = _STATES**2, plant.n_units * (plant.n_units - 1) - n_links
        return stats.ncx2.sf(stats.chi2.isf(ALPHA / n_pairs, n_elements), n_elements, size)
    n_tests = n_links * (_MOVES if what == "delayed" else 1)
    return stats.norm.sf(stats.norm.isf(ALPHA / n_tests) - np.sqrt(size))


def said(table, pair):
    """Of the default's answer: whether the link is told, its verdict, whether another is, rows off the date."""
    told = table.query("changed")
    hit = told[(told["cause"] == pair[0]) & (told["effect"] == pair[1])]
    return len(hit) > 0, hit["verdict"].iloc[0] if len(hit) else "", len(told) > len(hit), hit["since"].max()


def compared(first, axes, Y, pair):
    """Of two autoregressions: whether the link's block differs, and whether another does."""
    second = Autoregression([y @ axis for y, axis in zip(Y.values(), axes, strict=True)], first.n_lags)
    p = first.changes(second)
    changed = p * p.size <= ALPHA
    effect, cause = (int(name.removeprefix("unit")) for name in (pair[1], pair[0]))
    return changed[effect, cause], changed.sum() > changed[effect, cause]


def outcomes(seed, strength, s):
    """What is said of each change of one plant, of a record that begins as it was learned."""
    n_units = 6 + seed % 5
    plant = Plant(np.random.default_rng([seed, n_units]), n_units, strength)
    X = plant.record((plant.A[None], s["learned"]))
    scores, axes = components(X, _STATES)
    estimator, first, found = FederatedGrangerEstimator().fit(X), Autoregression(scores, 4), {}
    for what in CHANGES:
        lags, pair = plant.changed(what)
        if what == "none":
            lags = plant.A[None]
        h = plant.states((plant.A[None], s["before"]), (lags, s["after"]))
        Y = plant.sensors(h)
        hit, verdict, false, since = said(inspection.changed_links(estimator, Y, alpha=ALPHA), pair)
        found[what] = {"found": hit, "named": verdict == what, "false alarm": false, "since": abs(since - s["before"])}
        found[what] |= dict(zip(("VAR found", "VAR false alarm"), compared(first, axes, Y, pair), strict=True))
        found[what]["limit"] = np.nan if what == "none" else oracle(plant, h, s["before"], lags, what)
    return found


def row(strength, what, runs):
    """Shares of one change over plants."""
    of = {key: np.array([run[what][key] for run in runs], dtype=float) for key in runs[0][what]}
    if what == "none":  # whatever is told is false
        false = {name: of[name] + of[name.replace("false alarm", "found")] > 0 for name in of if "false" in name}
        told = {name: values.mean() for name, values in false.items()}
        return {"strength": strength, "change": what} | told
    since = of.pop("since")
    return {
        "strength": strength,
        "change": what,
        **{name: values.mean() for name, values in of.items()},
        "rows off the date, median": np.nanmedian(since) if np.isfinite(since).any() else None,
    }


def figures(s):
    """Rows of every change and strength."""
    rows = []
    for low, high in s["strengths"]:
        runs = [outcomes(seed, (low, high), s) for seed in range(s["plants"])]
        rows += [row(f"{low} to {high}", what, runs) for what in CHANGES]
    return {"Changes": rows}
