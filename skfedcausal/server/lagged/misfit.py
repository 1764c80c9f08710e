"""Whether a record asks for more lags, by tests of all at once, and when a link acts first."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from ...statespace.lagged.kernels import CHANNEL_SCALES, ChannelEvidence
from ...statespace.lagged.likelihood import LaggedLikelihood
from ...statespace.matrices import hermitian
from ...statespace.whittle import midpoints
from ..estimation.evidence import weighted_chi2_logsf
from ..joint import usual_information
from .tuning import TUNING

# Whether a record asks for more lags than the one it was fitted with: tests of all lags at once.
#
# No lag is chosen, so nothing has to be corrected for.

LEVEL = 0.05  # family-wise, below which a plant of several lags is learned and compared
_FILLED_LEVEL = LEVEL / 5  # what fills gaps is an estimate itself
_LAGS, _INPUT_LAGS = 20, 60  # that are tested, of inputs the later ones one by one only
ROWS_PER_LAG, ROWS_PER_INPUT_LAG = 50, 20  # time steps per lag at least, of an input's
_DECAYS = (0.1, 0.8)  # of the kernels that weigh later lags
_TINY = 1e-300
_TESTED = (0.02, 0.3, 0.7, 0.93)  # decays of the kernels of the tests
_SUSPECT = 1e-5  # p value of a single lag, roughly, below which it is tested


class LagTests(NamedTuple):
    """What a record says of lags after the first one."""

    p_values: np.ndarray  # by unit (effect) and unit, then unit's inputs, (n_units, 2 n_units)
    latest: tuple  # the latest lag of states and of inputs that surely acts by itself, 0 without one


def lag_tests(plant, scoring, units=None):
    """Tests of :class:`LagTests` of all units, or of some as effects.

    NaN where there is nothing to test; None for records that do not tell lags apart.
    """
    partition, longest = plant.partition, max(np.diff([*plant.starts, plant.n_samples]))
    n_lags = int(min(_LAGS, longest // ROWS_PER_LAG))
    if n_lags < TUNING.misfit_fewest_lags or not plant.scores_suffice or not plant.has_clear_scores:
        return None
    sums, n_input_lags = _products_of_lags(plant, n_lags)
    if sums is None:
        return None
    last = n_lags, n_input_lags
    likelihood = LaggedLikelihood(sums, plant.score_noise)
    point, n = scoring.point, partition.n_states
    coefficients = np.zeros((last[1] + 1, *point.A.shape))
    coefficients[1] = point.A
    found = likelihood.evaluate(coefficients, point.Q)
    info = plant.whittle().information(point.A, point.Q, last[1])
    noise, bases = OpenNoise(plant.score_noise, point, found), lag_bases(n_lags - 1, _DECAYS)
    test = MisfitTest(info, found.grad[: n_lags + 1], likelihood.n_rows, bases, noise)
    late = LateLags(info, found.grad, likelihood.n_rows, noise)
    in_plant = scoring.structure.transition_mask
    sources = [[(k, rows) for k, rows in enumerate(partition.slices)], []]
    for k, rows in enumerate(partition.input_slices, partition.n_units):
        if rows.stop > rows.start:
            sources[1].append((k, slice(n + rows.start, n + rows.stop)))
    p_values = np.full((partition.n_units, 2 * partition.n_units), np.nan)
    single, latest = np.full_like(p_values, np.nan), [0, 0]
    for unit in range(partition.n_units) if units is None else units:
        rows = partition.slices[unit]
        inside = np.flatnonzero(in_plant[rows.start])
        for k, family in enumerate(sources):
            for group in _of_equal_size(family):
                channels = np.array([range(cols.start, cols.stop) for _, cols in group])
                among = [source for source, _ in group]
                p_values[unit, among] = test.p_values(rows, inside, channels)
                single[unit, among], lag = late.p_values(rows, inside, channels, last[k])
                latest[k] = max(latest[k], lag)
    p_values = np.minimum(np.minimum(p_values / (1 - TUNING.misfit_late_share), single / TUNING.misfit_late_share), 1.0)
    return LagTests(p_values, tuple(latest))


def _products_of_lags(plant, n_lags):
    """Products of as many lags as inputs have, and their number; None where there are not even those of states."""
    memory = plant.standard_series()[2]
    most = _lags_of_inputs(plant, n_lags) if plant.partition.n_inputs else n_lags
    for lags in dict.fromkeys((most, n_lags)):  # batches may be too short for the first
        sums = plant.products_of_lags(lags, memory + lags)
        if sums is not None:
            return sums, lags
    return None, n_lags


def _lags_of_inputs(plant, n_lags):
    """Lags of inputs that are tested: as many as of states where more would leave out many rows of short episodes."""
    lengths = np.diff([*plant.starts, plant.n_samples])
    most = int(min(_INPUT_LAGS, lengths.max() // ROWS_PER_INPUT_LAG))
    left, all_rows = (np.maximum(lengths - lags, 0).sum() for lags in (most, n_lags))
    return most if left > TUNING.misfit_least_left * all_rows else n_lags


def is_mostly_there(record):
    """Whether every unit's states are seen in most rows: what is filled says nothing of lags."""
    shares = [part.determined_rows.mean() for part in record.parts]
    return bool(record.determined.all() and min(shares) >= TUNING.misfit_least_seen)


def filled_record(record, states):
    """The record as if every row were seen as the best one, the rest as expected of states (n_samples, n)."""
    parts = []
    for part, rows in zip(record.parts, record.partition.slices, strict=True):
        if part.is_constant:
            parts.append(part)
            continue
        usual = usual_information(part)
        lacking = np.einsum("tij,tj->ti", (usual - part.patterns)[part.pattern_of], states[:, rows])
        parts.append(replace(part, z=part.z + lacking, patterns=usual[None], index=None, const=None))
    return replace(record, parts=tuple(parts))


def misfit_table(names, p_values):
    """One row per channel: ``cause, effect, kind, p_value, p_adjusted``, the last for all of them."""
    if p_values is None:
        return pd.DataFrame(columns=["cause", "effect", "kind", "p_value", "p_adjusted"])
    effect, source = np.nonzero(np.isfinite(p_values))
    is_input, cause = np.divmod(source, len(names))
    names, p = np.asarray(names, dtype=object), p_values[effect, source]
    columns = {"cause": names[cause], "effect": names[effect]}
    columns["kind"] = np.where(is_input, "input", "state").astype(object)
    return pd.DataFrame(columns | {"p_value": p, "p_adjusted": np.minimum(p * len(p), 1.0)})


def misfit_of_all(table):
    """P value of no later lag anywhere: the least adjusted one, or that of all channels together by Cauchy's rule.

    Several channels that each ask a little for more lags ask for them together.
    """
    p = table["p_value"].to_numpy(float)
    if not len(p):
        return np.nan
    return min(float(table["p_adjusted"].min()), float(combined(p, at_most=TUNING.misfit_at_most)))


def level_of(*, has_gaps, is_backed):
    """Level below which a plant of several lags is learned and compared with the one of one lag.

    Not every prior backs it: what follows a level that shifts, several lags explain less well than one.
    """
    return _FILLED_LEVEL if has_gaps else TUNING.misfit_backed_level if is_backed else LEVEL


def one_lag_is_enough(table, level=LEVEL):
    """Whether tests of later lags, a `misfit_table`, leave a plant of one lag standing; so they do without any."""
    return not misfit_of_all(table) <= level


def _of_equal_size(family):
    groups: dict = {}
    for k, cols in family:
        groups.setdefault(cols.stop - cols.start, []).append((k, cols))
    return groups.values()


@cache
def lag_bases(n_lags, decays=_TESTED):
    """Bases of kernels that tests weigh lags by, (n_lags, k) each."""
    bases = []
    lag = np.arange(n_lags)
    for decay in decays:
        values, axes = np.linalg.eigh(decay ** np.maximum.outer(lag, lag).astype(float))
        values, axes = values[::-1], axes[:, ::-1]
        k = int(np.searchsorted(np.cumsum(values) / values.sum(), TUNING.misfit_explained)) + 1
        bases.append(axes[:, :k] * np.sqrt(values[:k]))
    return bases


def kernel_p_values(S, q, n_lags, bases, *, of_each_lag=False):
    """P values of channels of no effect, from scores (m, e) and informations (m, e, e) efficient for them.

    For each basis R of a kernel ``q' R R' q`` is a weighted sum of chi-squares under no effect, with the
    eigenvalues of ``R' S R``. Cauchy's rule combines the kernels' p values; with `of_each_lag` those of every
    single lag, all that a link with a dead time may have, carry half of the weight, early ones more of it.
    """
    n_channels, e = q.shape
    n_vectors = e // n_lags
    p_values = np.empty((len(bases), n_channels))
    for k, R in enumerate(bases):
        z = (q.reshape(n_channels, n_vectors, n_lags) @ R).reshape(n_channels, -1)
        C = S.reshape(n_channels, n_vectors, n_lags, n_vectors, n_lags)
        C = np.einsum("xvlum,lk->xvkum", C, R, optimize=True)
        C = np.einsum("xvkum,mj->xvkuj", C, R, optimize=True).reshape(n_channels, z.shape[1], z.shape[1])
        p_values[k] = _tails(z, C)
    if not of_each_lag:
        return combined(p_values)
    single = _single_lag_p_values(S, q, n_lags)
    early = 1 / np.arange(2, n_lags + 2)
    shares = np.concatenate([np.full(len(bases), 1 / len(bases)), early / early.sum()])
    # one lag that does exactly nothing says nothing of the others
    return combined(np.concatenate([p_values, single]), shares, TUNING.misfit_at_most)


def p_values_in_bases(S, q, sizes):
    """The same of scores (m, e) and informations (m, e, e) along the vectors of bases of so many, one after another."""
    n_vectors = q.shape[1] // sum(sizes)
    ends = np.cumsum([0, *sizes]) * n_vectors
    parts = [slice(*pair) for pair in zip(ends[:-1], ends[1:], strict=True)]
    return combined(np.array([_tails(q[:, own], S[:, own, own]) for own in parts]))


def _tails(z, C):
    """Tail probabilities of the squares of scores (m, e) whose covariances are (m, e, e)."""
    weights = np.linalg.eigvalsh(C)  # which looks at one half
    weights = np.maximum(weights, 1e-12 * weights[:, -1:] + _TINY)
    return np.exp(weighted_chi2_logsf(np.square(z).sum(axis=1)[:, None], weights)[:, 0])


def _single_lag_p_values(S, q, n_lags):
    """The same for the coefficients of one lag each, (n_lags, m)."""
    n_channels, n_vectors = len(q), q.shape[1] // n_lags
    squares = np.square(q.reshape(n_channels, n_vectors, n_lags)).sum(axis=1)
    C = np.einsum("xvlul->xlvu", S.reshape(n_channels, n_vectors, n_lags, n_vectors, n_lags))
    weights = np.linalg.eigvalsh((C + np.swapaxes(C, 2, 3)) / 2)
    weights = np.maximum(weights, 1e-12 * weights[..., -1:] + _TINY).reshape(-1, n_vectors)
    if n_vectors == 1:
        return chdtrc(1, squares / weights.reshape(squares.shape)).T
    return np.exp(weighted_chi2_logsf(squares.reshape(-1, 1), weights)[:, 0]).reshape(n_channels, n_lags).T


def combined(p_values, shares=None, at_most=1.0):
    """Cauchy combination of dependent p values along the first axis (Liu and Xie, 2020), by equal shares or others.

    P values above `at_most` count as that. Their scores, which lack a negative tail, add to the mean what is taken
    off again: their expectation up to the one that would do alone. A test without it rejects 15 % too often.
    """
    p_values = np.clip(p_values, _TINY, min(at_most, 1 - 1e-12))
    small = p_values < 1e-12
    t = np.where(small, 1 / (np.pi * p_values), np.tan((0.5 - np.where(small, 0.5, p_values)) * np.pi))
    shares = np.ones(len(t)) if shares is None else shares
    t = np.average(t, axis=0, weights=shares)
    if at_most < 1:
        shares, least = shares / shares.sum(), np.tan((0.5 - at_most) * np.pi)
        alone = np.maximum(t, 1.0)[..., None] / shares
        t -= np.log(np.hypot(1, alone) / np.hypot(1, least)) @ shares / np.pi
    # 1/2 - arctan(t)/pi loses its digits where it is small
    return np.clip(np.where(t > 1e6, 1 / (np.pi * np.maximum(t, 1)), 0.5 - np.arctan(t) / np.pi), _TINY, 1.0)


class OpenNoise:
    """Sensor noise of units as what their own models found, which is no more than an estimate.

    Too much or too little of it looks like later lags, so that the test of these allows for a little of both.
    """

    def __init__(self, N, point, found):
        self.grads, self._N, self._Q, self._A = (found.grad_Q, found.grad_N), N, point.Q, point.A

    def is_open(self, rows):
        """Whether a unit's sensor noise matters beside its process noise."""
        return np.trace(self._N[rows, rows]) > TUNING.misfit_no_noise * np.trace(self._Q[rows, rows])

    def precision(self, rows):
        """What the unit's own model knows of the elements of its sensor noise."""
        variance = self._N[rows, rows].diagonal()
        pairs = _symmetric_pairs(len(variance))
        return np.array([1 / (TUNING.misfit_noise_error**2 * variance[a] * variance[b]) for a, b in pairs])

    def filter(self, rows, frequencies):
        """``Z`` of the unit alone."""
        return np.eye(rows.stop - rows.start) - np.exp(-1j * frequencies)[:, None, None] * self._A[rows, rows]


class MisfitTest:
    """Whether lags after the first act, at the maximum of a plant of one lag: score tests of its channels.

    `info` is the expected information of that plant per row, a `SpectralInformation`, `grad` (n_lags + 1, n, c)
    the gradient of the likelihood of several lags there. Every channel, in the plant or not, is tested given
    its own first lag, the unit's other channels in the plant, its process noise and, with an
    :class:`OpenNoise`, its sensor noise.

    Of the lags of a channel only their first and the vectors of the `bases` that weigh later ones are looked at:
    coefficients are in the order vector, row, column.
    """

    def __init__(self, info, grad, n_rows, bases, noise=None):
        self._info, self._n_rows, self._noise = info, n_rows, noise
        self.sizes, later = [basis.shape[1] for basis in bases], np.hstack([*bases])
        along = np.eye(len(later) + 1, 1 + later.shape[1])
        along[1:, 1:] = later
        self._score = n_rows * np.tensordot(along.T, grad[1:], 1)  # (n_vectors, n, c)
        self._frequencies = midpoints(len(info.U))
        turned = along.T @ np.exp(1j * np.outer(np.arange(len(along)), self._frequencies))
        scale = n_rows / len(self._frequencies)
        self._turned = scale * turned
        self._pairs = np.triu_indices(len(turned))
        first, second = (turned[k] for k in self._pairs)
        ahead, both = np.conj(first) * second, first * second
        self._twice = scale * np.hstack([ahead.real, -ahead.imag, both.real, -both.imag])

    def _against_first(self, rows, inside, cols, filters, n_vectors=None):
        """Information of first lags of columns `inside` and of the noise with all or the first vectors of others.

        Of shape (n_vectors, n_nuisance, n_rows, n_cols).
        """
        U, V, W = self._info.U[:, rows, rows], self._info.V, np.conj(self._info.W[..., rows])
        p, n_first, pairs, turned = U.shape[1], len(inside), _symmetric_pairs(U.shape[1]), self._turned[:n_vectors]
        into, place = W[:, cols], p * n_first
        found = np.empty((len(turned), place + len(filters) * len(pairs), p, len(cols)))
        products = found[:, :place].reshape(len(turned), p, n_first, p, len(cols))  # E x_a[t-1] x_c[t-l]
        products[:] = _over_frequencies(turned, U, V[:, inside[:, None], cols]).transpose(0, 2, 3, 1, 4)
        products += _over_frequencies(turned, W[:, inside], into).transpose(0, 4, 1, 2, 3)
        for Z in filters:
            left, right = into, np.conj(U)
            if Z is not None:
                left, right = left @ np.conj(Z), np.swapaxes(Z, 1, 2) @ right
            shares = _over_frequencies(turned, right, left).transpose(0, 1, 4, 2, 3)  # vector, b, a, row, column
            for a, b in pairs:
                np.add(shares[:, b, a], shares[:, a, b] if a != b else 0.0, out=found[:, place])
                place += 1
        return found

    def _noise_filters(self, rows):
        """What noise passes on its way into the residuals: process noise nothing (None), sensor noise Z."""
        filters = [None]
        if self._noise is not None and self._noise.is_open(rows):
            filters.append(self._noise.filter(rows, self._frequencies))
        return filters

    def _noise_score(self, rows, filters):
        """Score of a unit's noise; that of process noise alone is zero at its maximum."""
        pairs = _symmetric_pairs(rows.stop - rows.start)
        if len(filters) == 1:
            return np.zeros(len(pairs))
        grads = [grad[rows, rows] * self._n_rows for grad in self._noise.grads]
        return np.array([grad[a, b] * (1.0 if a == b else 2.0) for grad in grads for a, b in pairs])

    def _of_noise(self, rows, filters):
        """Information of a unit's noise with itself."""
        U = self._info.U[:, rows, rows]
        p, directions = U.shape[1], []
        for Z in filters:
            left, right = (U, np.eye(p)[None]) if Z is None else (U @ Z, hermitian(Z))
            for a, b in _symmetric_pairs(p):
                direction = left[..., a, None] * right[:, None, b]
                directions.append(direction if a == b else direction + left[..., b, None] * right[:, None, a])
        x = np.array(directions)
        turned = np.swapaxes(x, 2, 3).reshape(len(x), -1)
        return 0.5 * self._n_rows * (x.reshape(len(x), -1) @ turned.T).real / len(U)

    def _of_channels(self, rows, cols):
        """Information of all vectors of some columns with each other, (m, e, e) for columns (m, k)."""
        U, W, V = self._info.U[:, rows, rows], self._info.W[..., rows], self._info.V
        products = np.einsum("fji,fxac->fxiajc", U, V[:, cols[:, :, None], cols[:, None]])
        own = np.conj(np.einsum("fxaj,fxci->fxiajc", W[:, cols], W[:, cols]))
        flat = np.concatenate([part.reshape(len(U), -1) for x in (products, own) for part in (x.real, x.imag)])
        m, v = len(cols), U.shape[1] * cols.shape[1]
        by_pair = (self._twice @ flat).reshape(-1, m, v, v)
        n_vectors = len(self._score)
        found = np.empty((m, n_vectors, v, n_vectors, v))
        first, second = self._pairs
        found[:, first, :, second] = by_pair
        found[:, second, :, first] = np.swapaxes(by_pair, 2, 3)
        return found.reshape(m, n_vectors * v, n_vectors * v)

    def p_values(self, rows, inside, channels):
        """P values of channels (m, k) of columns in a unit's rows; those `inside` (a,) are in the plant."""
        S, q = self.efficient(rows, inside, channels)
        return p_values_in_bases(S, q, self.sizes)

    def efficient(self, rows, inside, channels):
        """Information and score of the later lags of channels (m, k) of columns in a unit's rows, efficient for them.

        Columns `inside` (a,) are in the plant.
        """
        filters = self._noise_filters(rows)
        nuisance, score = self._nuisance(rows, inside, filters)
        (m, k), n_vectors, p = channels.shape, len(self._score), rows.stop - rows.start
        against = self._against_first(rows, inside, channels.ravel(), filters)
        against = against.reshape(n_vectors, len(nuisance), p, m, k).transpose(1, 3, 0, 2, 4)
        solved = _solved(nuisance, np.column_stack([against.reshape(len(nuisance), -1), score]))
        explained = solved[:, :-1].reshape(len(nuisance), m, -1).transpose(1, 0, 2)
        against = against.reshape(len(nuisance), m, -1).transpose(1, 2, 0)
        S = self._of_channels(rows, channels) - against @ explained
        q = self._score[:, rows][..., channels].transpose(2, 0, 1, 3).reshape(m, -1)
        return self._after_first(S, q - against @ solved[:, -1], p * k)

    def _nuisance(self, rows, inside, filters):
        """Information and score of the first lags that are in the plant and of the noise."""
        p, noise_score = rows.stop - rows.start, self._noise_score(rows, filters)
        place = self._against_first(rows, inside, inside, filters, 1)[0]
        n_first, size = p * len(inside), len(place)
        information = np.empty((size, size))
        information[:, :n_first] = place.reshape(size, n_first)
        information[:n_first, n_first:] = information[n_first:, :n_first].T
        information[n_first:, n_first:] = self._of_noise(rows, filters)
        if len(filters) > 1:
            known = np.arange(size - len(noise_score) // 2, size)
            information[known, known] += self._noise.precision(rows)
        return information, np.concatenate([self._score[0, rows][:, inside].ravel(), noise_score])

    def _after_first(self, S, q, n_first):
        """Efficient information and score of later lags given the channel's own first one, of `n_first` elements."""
        # in a channel of the plant nothing is left of its first lag, which the others have explained
        values, axes = np.linalg.eigh(S[:, :n_first, :n_first])
        least = 1e-8 * self._n_rows
        inverse = np.where(values > least, 1 / np.maximum(values, least), 0.0)
        turned = S[:, n_first:, :n_first] @ axes
        S_later = S[:, n_first:, n_first:] - (turned * inverse[:, None]) @ np.swapaxes(turned, 1, 2)
        along = np.einsum("xji,xj->xi", axes, q[:, :n_first]) * inverse
        return S_later, q[:, n_first:] - np.einsum("xij,xj->xi", turned, along)


class LateLags:
    """Single late lags of channels, all that a link with a dead time may have: kernels of the test hardly weigh these.

    What is asked first is cheap, as if a record told nothing of the first lag and the noise; of the channels that this
    makes suspect the most suspect lag is tested as :class:`MisfitTest` does.
    """

    def __init__(self, info, grad, n_rows, noise):
        self._info, self._grad, self._n_rows, self._noise = info, grad, n_rows, noise

    def p_values(self, rows, inside, channels, last):
        """P values of channels by a late lag, up to the last one, times their number; the latest that surely acts.

        One where no lag is suspect.
        """
        p_values, roughly = np.ones(len(channels)), self._roughly(rows, channels, last)
        suspect = np.flatnonzero(roughly.min(axis=1, initial=1.0) < _SUSPECT)
        if not len(suspect):
            return p_values, 0
        lags, of_lags = np.unique(TUNING.misfit_late + 1 + roughly[suspect].argmin(axis=1), return_inverse=True)
        bases = [np.eye(last - 1)[:, [lag - 2]] for lag in lags]
        test = MisfitTest(self._info, self._grad[: last + 1], self._n_rows, bases, self._noise)
        S, q = test.efficient(rows, inside, channels[suspect])
        size = q.shape[1] // len(lags)
        each, own = np.arange(len(suspect))[:, None], of_lags[:, None] * size + np.arange(size)
        exact = _tails(q[each, own], S[each[..., None], own[:, :, None], own[:, None]])
        p_values[suspect] = np.minimum(exact * roughly.shape[1], 1.0)
        return p_values, int(max(lags[of_lags[p_values[suspect] < _SUSPECT]], default=0))

    def _roughly(self, rows, channels, last):
        """P values of every late lag of each channel by its score alone, (m, n_lags)."""
        U, V = self._info.U[:, rows, rows], self._info.V[:, channels[:, :, None], channels[:, None]]
        (m, k), p = channels.shape, rows.stop - rows.start
        S = self._n_rows / len(U) * np.tensordot(U, V, ([0], [0])).real  # (row, row, channel, col, col)
        S = S.transpose(2, 1, 3, 0, 4).reshape(m, p * k, p * k) + TUNING.misfit_unknown * self._n_rows * np.eye(p * k)
        q = self._n_rows * self._grad[1 + TUNING.misfit_late : last + 1, rows][..., channels]
        q = q.transpose(2, 1, 3, 0).reshape(m, p * k, -1)
        return chdtrc(p * k, np.einsum("xel,xel->xl", q, np.linalg.solve(S, q)))


def _over_frequencies(turned, x, y):
    """``Re sum_f turned[k, f] x[f, a, b] y[f, c, d]``, shape (k, a, b, c, d)."""
    left = (turned[:, :, None] * x.reshape(len(x), -1)).swapaxes(1, 2)  # (k, a b, f)
    right = y.reshape(len(y), -1)
    left = np.concatenate([left.real, -left.imag], axis=2).reshape(-1, 2 * len(x))
    return (left @ np.concatenate([right.real, right.imag])).reshape(len(turned), *x.shape[1:], *y.shape[1:])


def _symmetric_pairs(p):
    return [(a, b) for a in range(p) for b in range(a + 1)]


def _solved(information, right):
    """``information^-1 right``, without directions that a record tells nothing of."""
    scale = 1 / np.sqrt(information.diagonal())
    values, axes = np.linalg.eigh(scale[:, None] * information * scale)
    known = values > TUNING.misfit_unknown
    axes = scale[:, None] * axes[:, known]
    return axes @ ((axes.T @ right) / values[known, None])


# When a link acts first: the probability of every dead time, and a set of likely ones.

_FIRST_LAG_DECAYS = (0.02, 0.3, 0.65, 0.88)  # of the kernels that begin at the first lag that acts


def first_lag_probabilities(S, q, n_lags):
    """Probability of each lag to be the first that acts, from a channel's efficient information and score.

    The evidence of kernels that begin at that lag, averaged over their decays and scales; beforehand all lags
    are as likely.
    """
    of_roots = ChannelEvidence(S, q, len(q) // n_lags)
    of_lags: list = [[] for _ in range(n_lags)]
    for first, roots in _first_roots(n_lags):
        for lag, values in zip(first, of_roots(roots), strict=True):
            of_lags[lag].append(values)
    evidence = np.logaddexp.reduce(np.array(of_lags).reshape(n_lags, -1), axis=1)
    probability = np.exp(evidence - evidence.max())
    return probability / probability.sum()


@cache
def _first_roots(n_lags):
    """Roots of kernels that begin at each lag, those of as many columns together: the lags, and (m, n_lags, k)."""
    groups: dict = {}
    for first in range(n_lags):
        for basis in lag_bases(n_lags - first, _FIRST_LAG_DECAYS):
            root = np.zeros((n_lags, basis.shape[1]))
            root[first:] = basis
            groups.setdefault(basis.shape[1], []).append((first, root))
    return [([first for first, _ in group], np.stack([root for _, root in group])) for group in groups.values()]


def likely_lags(probability, lags):
    """The most probable first lag, and the ends of the smallest set that holds 90 % of the probability."""
    order = np.argsort(-probability, kind="stable")
    n_kept = int(np.searchsorted(np.cumsum(probability[order]), TUNING.delays_probability)) + 1
    kept = np.asarray(lags)[order[:n_kept]]
    return float(lags[order[0]]), float(kept.min()), float(kept.max())


def channel_posterior(S, q, n_lags, prior=None):
    """Mean and covariance of a channel's coefficients, twice its log evidence.

    Under its own prior root (n_lags, k), or under the test kernel and scale of the largest evidence.
    """
    n_vectors, best = len(q) // n_lags, 0.0
    if prior is None:
        best, of_roots = -np.inf, ChannelEvidence(S, q, n_vectors)
        for basis in lag_bases(n_lags):
            (values,) = of_roots(basis[None])
            if values.max() > best:
                best, prior = values.max(), np.sqrt(CHANNEL_SCALES[values.argmax()]) * basis
    R = np.kron(np.eye(n_vectors), prior)
    M = R.T @ S @ R
    M[np.diag_indices(len(M))] += 1.0
    right = np.linalg.solve(M, R.T)
    white = R.T @ q
    evidence = white @ (right @ q) - np.linalg.slogdet(M)[1]
    return R @ (right @ q), R @ right, evidence
