"""What has changed: how often links that change are found, named and dated, and how often it is a false alarm.

Run ``python -m benchmarks.changed_links`` for the tables; ``--plants``, ``--nominal`` and ``--table4`` say of how many
plants.
"""

import argparse
from time import perf_counter

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.statespace.matrices import spectral_radius

from ._pages import settings
from ._report import table, write
from .paper1._setting import by_default, train_and_test, trained, two_clients
from .paper1.table4 import cases, changed

ALPHA, LEARNED, BEFORE, AFTER = 0.05, 4000, 200, 400
SETTINGS = settings("paper1")["table4"]
CHANGES = ("none", "weaker", "lost", "new", "delayed")
_STATES, _SENSORS, _WARM = 2, 6, 100
_NOMINAL, _FIRST_NOMINAL = 4, 8000  # records of each further plant, seed of the first
_MOVES = 5  # rows by which a link may move
_ORACLES = "oracle, this link", "oracle, all links"
_BLOCK, _N_BLOCKS = 500, 10
JOBS = Parallel(n_jobs=2)


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


def oracle(plant, h, lags, what):
    """Chances that somebody finds a change who sees the states `h` and knows the plant, the date and what it is.

    Of a test of the one link that changed, knowing how; and where it is not known which of all links, or, of a new
    one, of all other pairs: Bonferroni's rule over them and the rows by which a link may move.
    """
    changed = lags.copy()
    changed[0] -= plant.A
    signal = sum(h[BEFORE - k : -k] @ A.T for k, A in enumerate(changed, 1))
    size, n_links = np.square(signal).sum(), len(plant.pairs)  # states have noise of unit variance
    one = stats.norm.sf(stats.norm.isf(ALPHA) - np.sqrt(size))
    if what == "new":
        n_elements, n_pairs = _STATES**2, plant.n_units * (plant.n_units - 1) - n_links
        return one, stats.ncx2.sf(stats.chi2.isf(ALPHA / n_pairs, n_elements), n_elements, size)
    n_tests = n_links * (_MOVES if what == "delayed" else 1)
    return one, stats.norm.sf(stats.norm.isf(ALPHA / n_tests) - np.sqrt(size))


def outcomes(seed, n_units, strength):
    """What is said of each change of one plant, of a record that begins as it was learned."""
    plant = Plant(np.random.default_rng([seed, n_units]), n_units, strength)
    estimator = FederatedGrangerEstimator().fit(plant.record((plant.A[None], LEARNED)))
    found = {}
    for what in CHANGES:
        lags, pair = plant.changed(what)
        late = plant.A[None] if what == "none" else lags
        h = plant.states((plant.A[None], BEFORE), (late, AFTER))
        Y = plant.sensors(h)
        begun = perf_counter()
        told = estimator.changed_links(Y, alpha=ALPHA).query("changed")
        seconds = perf_counter() - begun
        hit = told[(told["cause"] == pair[0]) & (told["effect"] == pair[1])] if what != "none" else told[:0]
        found[what] = {
            "detected": len(hit) > 0,
            "named": len(hit) > 0 and hit["verdict"].iloc[0] == what,
            "false alarm": len(told) > len(hit),
            "since": abs(hit["since"].iloc[0] - BEFORE) if len(hit) else np.nan,
            "seconds": seconds,
        }
        if what != "none":
            found[what] |= dict(zip(_ORACLES, oracle(plant, h, lags, what), strict=True))
    return found


def detection_rows(runs):
    """Shares by change over plants, the `outcomes` of each."""
    rows, n_plants = [], len(runs)
    for what in CHANGES:
        of = {key: np.array([run[what][key] for run in runs], dtype=float) for key in runs[0][what]}
        row = {"change": what, "detected": f"{of['detected'].mean():.2f}", "named right": f"{of['named'].mean():.2f}"}
        if what == "none":
            row |= {"detected": "", "named right": ""}
        row |= {name: f"{of[name].mean():.2f}" if name in of else "" for name in _ORACLES}
        row["a false alarm"] = f"{of['false alarm'].mean():.3f} ({int(of['false alarm'].sum())} of {n_plants})"
        since = of["since"][np.isfinite(of["since"])]
        row["rows off the true date, median"] = f"{np.median(since):.0f}" if len(since) else ""
        row["seconds"] = f"{np.median(of['seconds']):.1f}"
        rows.append(row)
    return rows


def false_alarms(seed):
    """Whether anything is said to have changed, of records of one plant in which nothing has."""
    n_units = 6 + seed % 5
    plant = Plant(np.random.default_rng([seed, n_units]), n_units, (0.25, 0.45))
    estimator = FederatedGrangerEstimator().fit(plant.record((plant.A[None], LEARNED)))
    records = (plant.record((plant.A[None], BEFORE + AFTER)) for _ in range(_NOMINAL))
    return [bool(estimator.changed_links(Y, alpha=ALPHA)["changed"].any()) for Y in records]


def nominal_text(told):
    """The section on false alarms where nothing has changed, of the `false_alarms` of each plant."""
    return (
        f"## Nothing changed\n\nOf {_NOMINAL} records each of {len(told)} further plants (strengths 0.25 to 0.45) "
        f"{np.sum(told)} of {np.size(told)} show a false alarm."
    )


def table4_rows(n_plants, push):
    """What `changed_links` says of every test record of the first paper's Table 4."""
    s = {**SETTINGS, "push": push}
    runs = JOBS(delayed(table4_of)(s, seed) for seed in range(n_plants))
    rows = []
    for case in test_records():
        tables = [run[case] for run in runs]
        row = {"test record": case}
        for pair in (("unit0", "unit1"), ("unit1", "unit0"), ("unit0", "unit0"), ("unit1", "unit1")):
            verdicts = [told.loc[pair, "verdict"] for told in tables]
            row[" -> ".join(pair)] = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
        rows.append(row)
    return rows


def test_records():
    """Settings of the test records of both parts of the table, by name."""
    return {name: case for part in cases(SETTINGS).values() for name, case in part.items()}


def table4_of(s, seed):
    """Tables of one plant's test records."""
    X, _, truth = train_and_test(s, seed)
    default, found = by_default(X, truth), {}
    for case, changes in test_records().items():
        told = default.changed_links(changed(s, seed, changes), alpha=ALPHA)
        found[case] = told.set_index(["cause", "effect"])
    return found


def sensitivity_rows(n_plants):
    """Losses of pre-trained and of jointly trained clients, beside those of records that nothing changed in."""
    changes_of = {"nothing changed": {}, **{name: case for name, case in test_records().items() if case}}
    flagged = {case: {"pretrained": [], "joint": []} for case in changes_of}
    ratio = {case: [] for case in changes_of}
    for seed in range(n_plants):
        (X, nominal, _), truth = _episodes(seed)
        fits = {variant: trained(X, truth, variant=variant, solve="stationary") for variant in ("pretrained", "joint")}
        limits = {variant: np.quantile(_server_losses(fit, nominal), 0.95) for variant, fit in fits.items()}
        for case, changes in changes_of.items():
            test = _episodes(seed, **changes)[0][2]
            losses = {variant: _server_losses(fit, test) for variant, fit in fits.items()}
            ratio[case].append(losses["pretrained"].mean() / losses["joint"].mean())
            for variant, values in losses.items():
                flagged[case][variant].append((values > limits[variant]).mean())
    return [
        {
            "record": case,
            "server loss, pre-trained / joint": f"{np.mean(ratio[case]):.2f}",
            **{f"blocks flagged, {variant}": f"{np.mean(shares):.2f}" for variant, shares in flagged[case].items()},
        }
        for case in changes_of
    ]


def _episodes(seed, back=0.0, **changes):
    """Three records of the paper's two clients, with other noise each; the plant's truth."""
    X, truth = two_clients({**SETTINGS, **changes}, seed, back=back, episodes=3)
    ends = np.cumsum([0, *truth.lengths])
    return [{name: y[a:b] for name, y in X.items()} for a, b in zip(ends[:-1], ends[1:], strict=True)], truth


def _server_losses(fit, Y):
    """Server loss of every block of a record."""
    starts = range(0, _N_BLOCKS * _BLOCK, _BLOCK)
    return np.array([fit.losses({name: y[k : k + _BLOCK] for name, y in Y.items()}).server.sum() for k in starts])


def main():
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plants", type=int, default=40)
    parser.add_argument("--nominal", type=int, default=24)
    parser.add_argument("--table4", type=int, default=10)
    options = parser.parse_args()
    sections = [
        f"Plants of 6 to 10 units, two states, {_SENSORS} sensors each, one link a unit, learned from {LEARNED} rows. "
        f"New records have {BEFORE} rows as learned and {AFTER} after the change: the gain of a link halved (weaker), "
        "a link lost, a new one, one that acts three rows later (delayed). A false alarm is any other row of the "
        f"table that is said to have changed (alpha={ALPHA}). Oracles see the states without noise and know the plant, "
        "the date and the sort of change: power of a test of the one link, and of all links (or all pairs without "
        f"one) at a family-wise {ALPHA}. Plants of both tables have the same random numbers, but for the strengths."
    ]
    for strength in ((0.3, 0.5), (0.2, 0.3)):
        plants = ((seed, 6 + seed % 5, strength) for seed in range(options.plants))
        rows = table(detection_rows(JOBS(delayed(outcomes)(*plant) for plant in plants)))
        sections.append(f"## Links of strength {strength[0]} to {strength[1]}, {options.plants} plants\n\n{rows}")
    told = JOBS(delayed(false_alarms)(_FIRST_NOMINAL + seed) for seed in range(options.nominal))
    sections.append(nominal_text(told))
    push = SETTINGS["push"]
    for size, words in ((0.0, "no push"), (push, f"a push of {push} in the second half of every record")):
        rows = table(table4_rows(options.table4, size))
        sections.append(
            f"## First paper, Table 4: {words}, {options.table4} plants\n\nVerdicts on test records of 5000 rows by "
            f"the default server; training has unit0 -> unit1.\n\n{rows}"
        )
    sections.append(
        "## Are pre-trained clients over-sensitive?\n\nServer losses of blocks of 500 rows; a block is flagged above "
        "the 95 % quantile of ten blocks of a nominal record.\n\n" + table(sensitivity_rows(options.table4))
    )
    write("changed_links", "What has changed: links of a learned plant in new records", *sections)


if __name__ == "__main__":
    main()
