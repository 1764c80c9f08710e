"""What inputs do beyond what a linear plant says: the second order of their effects, and how sure it is.

A plant ``h[t] = f(h[t-1], u[t-1])`` that is not linear answers its inputs, to second order, as if quadratic forms of
its linear run and of the inputs drove it as well. One whose valves saturate answers as if bends of single inputs did.
The coefficients of both kinds are learned from what a run under the inputs alone misses of the record, with priors
whose variances come from the evidence: nothing is left of them where nothing is missed.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter, oaconvolve

from ...statespace.episodes import episodes
from ..dynamics import Plant
from .tuning import TUNING

_COMPONENTS, _MANY, _FEW_COMPONENTS = 10, 16, 4  # of the signals whose products drive, of plants of many states
_MOST_BENDS, _FEW = 31, 64  # of an input, as long as those of all inputs are few
_TRIED = 256  # kinks of which those that repeat others are left out
_MOST_ROWS = 4  # of states through which products act on a state
_FORGOTTEN = 1e-10  # share of the energy of an answer that may come later
_LONGEST = 10_000  # rows to learn from, at most
_SHARES = 10.0 ** np.arange(-7, 1, 0.25)  # of the variance of what is missed that the forms may have
_LIKELIER = np.log(100.0)  # by which they have to be likelier than none to move an effect


@dataclass(frozen=True, eq=False)
class Bends:
    """Kinks of each input at its quantiles, less what is linear in the inputs."""

    knots: tuple[np.ndarray, ...]  # by input
    low: np.ndarray  # range of the inputs in the record; they are held at its ends beyond
    high: np.ndarray
    linear: np.ndarray  # (k + 1, n_bends), the last row a level

    @classmethod
    def learned(cls, u):
        """Those of inputs (n_samples, k)."""
        n_bends = min(_MOST_BENDS, _TRIED // u.shape[1])
        knots = _knots(u, n_bends)
        n_kinks = sum(map(len, knots))
        if n_kinks > _FEW:
            knots = _knots(u, min(TUNING.curvature_fewer_bends, n_bends * TUNING.curvature_bends_in_all // n_kinks))
        linear = np.linalg.lstsq(_with_level(u), _kinks(u, knots), rcond=None)[0]
        return cls(knots, u.min(axis=0), u.max(axis=0), linear)

    @property
    def number(self):
        """How many columns they are."""
        return self.linear.shape[1]

    def __call__(self, u):
        u = np.clip(u, self.low, self.high)
        return _kinks(u, self.knots) - _with_level(u) @ self.linear


def _knots(u, n_bends):
    """Quantiles of inputs at which kinks say something new: columns of a spline have many kinks in common.

    A prior on kinks is one on the roughness of a curve; where the same kink is there twice it would be a weaker one.
    """
    at = np.arange(1, n_bends + 1) / (n_bends + 1)
    knots = [np.unique(np.quantile(column, at)) for column in u.T]
    both = np.hstack([_with_level(u), _kinks(u, knots)])
    left, new = np.square(np.diag(np.linalg.qr(both, mode="r"))), np.zeros(both.shape[1], dtype=bool)
    new[: len(left)] = left > TUNING.curvature_same * np.square(both).sum(axis=0)[: len(left)]
    cuts = np.cumsum([u.shape[1] + 1, *map(len, knots)])[:-1]
    return tuple(own[kept] for own, kept in zip(knots, np.split(new, cuts)[1:], strict=True))


def _kinks(u, knots):
    return np.hstack([np.maximum(column[:, None] - own, 0.0) for column, own in zip(u.T, knots, strict=True)])


def _with_level(u):
    return np.column_stack([u, np.ones(len(u))])


@dataclass(frozen=True, eq=False)
class Form:
    """What products of signals and bends do to one state: regressors of unit variance, and their posterior."""

    responses: np.ndarray  # (n_lags, r), of the state to what drives the rows of its unit
    scale: np.ndarray  # (r f,)
    mean: np.ndarray
    root: np.ndarray  # (r f, e): root @ root' is the covariance
    gain: float  # log evidence over that of none
    moves: bool = False  # whether those of its unit are credible enough to move an effect
    foretold: float = 0.0  # share of it that forecasts count on: as much as rows that were left out confirm

    def regressors(self, features):
        """What `features` (n_samples, f) do through each row, shape (n_samples, r f)."""
        driven = [oaconvolve(features, h[: len(features), None], axes=0)[: len(features)] for h in self.responses.T]
        return np.hstack(driven) / self.scale


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second-order terms of the answer of a plant to its inputs, and bends of these."""

    dynamics: Plant
    level: np.ndarray  # of the signals, run and inputs side by side
    axes: np.ndarray  # onto components of unit variance
    low: np.ndarray  # range of the components in the record; they are held at its ends beyond
    high: np.ndarray
    bends: Bends
    centre: np.ndarray  # mean of products and bends in the record
    forms: tuple[Form, ...]  # by state

    def features(self, run, u):
        """Products of the components of a run (n_samples, n) and its inputs, and bends, less their means."""
        components = np.clip((np.hstack([run, u]) - self.level) @ self.axes, self.low, self.high)
        return np.hstack([_products(components), self.bends(u)]) - self.centre

    def driven(self, u, share=0.0):
        """What products and bends do under inputs (n_samples, k), in the row after each, shape (n_samples, n).

        As much of it as forecasts count on, a `share` at least where they move effects.
        """
        found, weights = np.zeros((len(u), self.dynamics.n_states)), self._weights(share)
        if any(weights):
            features = self.features(self.dynamics.response(u), u)
            for i, (form, weight) in enumerate(zip(self.forms, weights, strict=True)):
                if weight and len(form.mean):
                    found[:, i] = form.regressors(features) @ form.mean * weight
        return found

    def _weights(self, share):
        return [max(form.foretold, share) * form.moves for form in self.forms]

    def foretells(self, share=0.0):
        """Whether :meth:`driven` is anything."""
        return any(weight and len(form.mean) for form, weight in zip(self.forms, self._weights(share), strict=True))

    def moments(self, change, effect, before=None):
        """What to add to an `effect` (n_steps, n) of a change of inputs, and the variance of what is left.

        `before` are the inputs less their level that the change is made to, with rows before it if there are
        any, at their level if not given. Where products act, what is added may be wrong by as much as it is: the
        orders after the second are not known. Bends alone are the whole curve of an input.
        """
        n_steps, k = change.shape
        known = np.zeros((0, k)) if before is None else before[-(n_steps + TUNING.curvature_history) :]
        u = np.vstack([np.zeros((max(n_steps - len(known), 0), k)), known])
        run, u = self.dynamics.response(u)[-n_steps:], u[-n_steps:]
        moved = self.features(run + effect, u + change) - self.features(run, u)
        shift, variance = np.zeros_like(effect), np.zeros_like(effect)
        for i, form in enumerate(self.forms):
            if form.root.shape[1]:
                G = form.regressors(moved)
                expected = G @ form.mean
                doubt = self._share_of_products(form) if form.moves else 1.0
                variance[:, i] = doubt * expected**2 + np.square(G @ form.root).sum(axis=1)
                shift[:, i] = form.moves * expected
        return shift, variance

    def _share_of_products(self, form):
        """Of the coefficients of a form, whose regressors have unit variance; the others are those of bends."""
        of_feature = form.mean.reshape(-1, len(self.centre))
        n_products = len(self.centre) - self.bends.number
        products, bends = (np.linalg.norm(part) for part in np.split(of_feature, [n_products], axis=1))
        return products / (products + bends) if products else 0.0


def learned_curvature(dynamics, slices, scores, u, starts):
    """The :class:`Curvature` of a record of scores (n_samples, n) and inputs, both less their levels.

    None for plants without inputs, with too many states, or seen in too few rows.
    """
    if not u.shape[1] or dynamics.n_states * dynamics.n_lags > TUNING.curvature_most_states:
        return None
    parts = [part for part in _runs(dynamics, scores, u, starts) if part.late < len(part.run)]
    signals = [np.hstack([part.run, part.u]) for part in parts]
    if sum(len(part.run) - part.late for part in parts) < TUNING.curvature_fewest:
        return None
    axes = _components(np.concatenate(signals), _FEW_COMPONENTS if dynamics.n_states > _MANY else _COMPONENTS)
    level = np.concatenate(signals).mean(axis=0)
    components = [(x - level) @ axes for x in signals]
    everything = np.concatenate(components)
    bends = Bends.learned(np.concatenate([part.u for part in parts]))
    features = [np.hstack([_products(x), bends(part.u)]) for x, part in zip(components, parts, strict=True)]
    centre = np.concatenate(features).mean(axis=0)
    features = [x - centre for x in features]
    is_bend = np.arange(len(centre)) >= len(centre) - bends.number
    answers = _impulse_responses(dynamics.A, min(TUNING.curvature_memory, max(len(p.run) for p in parts)))
    forms = _learned_forms(answers, features, is_bend, parts, slices)
    low, high = everything.min(axis=0), everything.max(axis=0)
    return Curvature(dynamics, level, axes, low, high, bends, centre, tuple(forms))


@dataclass(frozen=True)
class _Run:
    run: np.ndarray
    u: np.ndarray
    missed: np.ndarray
    late: int


def _runs(dynamics, scores, u, starts):
    """Runs of every episode under its inputs alone, up to as many rows as are learned from."""
    found, left = [], _LONGEST
    for start, stop in episodes(starts, len(scores)):
        stop = min(stop, start + left)
        if stop - start > 1:
            run = dynamics.response(u[start : stop - 1])
            late = min(int(TUNING.curvature_settles * len(run)), TUNING.curvature_forgets)
            found.append(_Run(run, u[start : stop - 1], scores[start + 1 : stop] - run, late))
            left -= stop - start
    return found


def _components(signals, n_components):
    """Axes (c, m) onto the principal components of standardised signals, of unit variance."""
    scale = signals.std(axis=0)
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > TUNING.curvature_jitter * scale.max())
    values, axes = np.linalg.eigh(inverse[:, None] * np.cov(signals.T) * inverse)
    kept = values > TUNING.curvature_jitter * values[-1]
    axes = inverse[:, None] * axes[:, kept] / np.sqrt(values[kept])
    return axes[:, ::-1][:, :n_components]


def _products(v):
    """Products of all pairs of columns."""
    i, j = np.triu_indices(v.shape[1])
    return v[:, i] * v[:, j]


def _impulse_responses(A, n_lags):
    """Answers of states to what drives each of them, shape (n_lags, n, n)."""
    answers = np.zeros((n_lags, *A.shape[1:]))
    answers[0] = np.eye(A.shape[1])
    for t in range(1, n_lags):
        for k in range(min(t, len(A))):
            answers[t] += A[k] @ answers[t - 1 - k]
    return answers


def _learned_forms(answers, features, is_bend, parts, slices):
    """The :class:`Form` of every state; once more, through other units too, where these turn out to bend."""
    lates = [part.late for part in parts]

    def learned(i, rows):
        return _learned(answers[:, i, rows], features, is_bend, [part.missed[:, i] for part in parts], lates)

    through = [_loudest(answers[:, i], rows) for rows in slices for i in range(rows.start, rows.stop)]
    forms = _told_to_move([learned(i, rows) for i, rows in enumerate(through)], slices)
    moving = np.array([form.moves for form in forms])
    for i, rows in enumerate(through):
        wider = _heard(answers[:, i], rows, moving, is_bend.size)
        if len(wider) > len(rows):
            forms[i] = learned(i, wider)
    return _told_to_move(forms, slices)


def _told_to_move(forms, slices):
    """Forms, those of a unit with the word whether they are credible enough together to move its effects."""
    moves = [sum(form.gain for form in forms[rows]) > _LIKELIER for rows in slices]
    return [replace(form, moves=own) for rows, own in zip(slices, moves, strict=True) for form in forms[rows]]


def _loudest(answers, own):
    """Rows of its unit through which products act on a state of `answers` (n_lags, n)."""
    energy = np.square(answers[:, own]).sum(axis=0)
    few = min(_MOST_ROWS, np.count_nonzero(energy))
    return own.start + np.sort(np.argsort(-energy, kind="stable")[:few])


def _heard(answers, through, moving, n_features):
    """Rows through which products act on a state, those of other units that move too as long as they are few.

    What bends the inputs of another unit goes through the states of that one.
    """
    energy = np.square(answers).sum(axis=0)
    loud = moving & (energy > TUNING.curvature_heard * energy.max())
    others = [r for r in np.argsort(-energy, kind="stable") if loud[r] and r not in through]
    room = max(min(_MOST_ROWS, TUNING.curvature_most_regressors // n_features) - len(through), 0)
    return np.sort(np.concatenate([through, others[:room]]).astype(int))


def _learned(answers, features, is_bend, missed, lates):
    """The :class:`Form` of one state, from what runs of episodes missed; `answers` are (n_lags, p)."""
    energy = np.square(answers).sum(axis=0)
    left = np.cumsum(np.square(answers[::-1]), axis=0)[::-1] > _FORGOTTEN * energy
    bare = Form(answers[left.any(axis=1)], np.ones(1), np.zeros(0), np.zeros((0, 0)), 0.0)
    G = [bare.regressors(x)[late:] for x, late in zip(features, lates, strict=True)]
    y = [x[late:] for x, late in zip(missed, lates, strict=True)]
    level, centre = np.concatenate(y).mean(), np.concatenate(G).mean(axis=0)
    scale = np.concatenate(G).std(axis=0)
    scale = np.where(scale > TUNING.curvature_jitter * scale.max(), scale, np.inf)
    y, G = [x - level for x in y], [(x - centre) / scale for x in G]
    mean, root, gain = np.zeros(len(scale)), np.zeros((len(scale), 0)), 0.0
    if np.concatenate(y).any():
        kinds = [np.flatnonzero(np.tile(kind, answers.shape[1])) for kind in (~is_bend, is_bend)]
        for _ in range(TUNING.curvature_passes):
            mean, root, gain = _posterior(y, G, [a - b @ mean for a, b in zip(y, G, strict=True)], kinds)
            if not mean.any():  # the noise is what it was
                break
    foretold = _foretold(y, G, mean, kinds) if gain > _LIKELIER else 0.0
    return Form(bare.responses, scale, mean, root, gain, foretold=foretold)


def _foretold(y, G, mean, kinds):
    """Slope of what a run misses of a fifth of the rows on what is foretold of it, learned without it, from 0 to 1.

    The least of all fifths: what a record that drifts misses seems to follow its inputs, elsewhere in another way.
    """
    lengths = [len(x) for x in y]
    firsts, total = np.cumsum([0, *lengths[:-1]]), sum(lengths)
    least = 1.0
    for fold in range(TUNING.curvature_folds):
        ends = np.array([fold, fold + 1]) * total // TUNING.curvature_folds
        cuts = [np.clip(ends - a, 0, n) for a, n in zip(firsts, lengths, strict=True)]
        runs = list(zip(y, G, cuts, strict=True))
        rest = [(a[part], b[part]) for a, b, (i, j) in runs for part in (slice(i), slice(j, None))]
        rest = [pair for pair in rest if len(pair[0]) > TUNING.curvature_noise_order]
        if not rest:
            return 0.0
        ys, Gs = zip(*rest, strict=True)
        learned = _posterior(ys, Gs, [a - b @ mean for a, b in rest], kinds)[0]
        left_out = [(a[i:j], b[i:j] @ learned) for a, b, (i, j) in runs]
        missed, foretold = (np.concatenate(one) for one in zip(*left_out, strict=True))
        crossed, squared = foretold @ missed, foretold @ foretold
        if crossed <= 0 or not squared:
            return 0.0
        least = min(least, float(crossed / squared))
    return least


def _posterior(y, G, noise, kinds):
    """Mean, root of the covariance and log evidence of coefficients, under the noise that `noise` shows.

    Coefficients of a kind have the same prior variance. Those of the second kind are zero unless they make the
    record clearly likelier than those of the first alone.
    """
    whitener = _whitener(noise)
    order = len(whitener) - 1
    white = ([lfilter(whitener, 1.0, x, axis=0)[order:] for x in series] for series in (y, G, noise))
    yw, Gw, rest = map(np.concatenate, white)
    variance = max(rest.var(), TUNING.curvature_least_noise * np.square(yw).mean())
    if not variance > 0:  # where nothing is missed nothing has to be explained
        return np.zeros(G[0].shape[1]), np.zeros((G[0].shape[1], 0)), 0.0
    H, b = Gw.T @ Gw / variance, Gw.T @ yw / variance
    choices, prior = _SHARES * np.concatenate(y).var(), np.zeros(len(b))
    products, bends = kinds
    prior[products] = _likeliest_variance(H, b, products, prior, choices)
    found = _moments(H, b, prior)
    prior[bends] = _likeliest_variance(H, b, bends, prior, choices)
    if not prior[bends].any():  # the products alone, as before
        return found
    prior[products] = _likeliest_variance(H, b, products, prior, choices)
    other = _moments(H, b, prior)
    return other if other[-1] > found[-1] + _LIKELIER else found


def _moments(H, b, prior):
    """Mean, root of the covariance and log evidence of coefficients of information H and score b at zero."""
    kept = np.flatnonzero(prior)
    size = np.sqrt(prior[kept])
    mean, root = np.zeros(len(b)), np.zeros((len(b), len(kept)))
    d, V = np.linalg.eigh(size[:, None] * H[np.ix_(kept, kept)] * size)
    d, z = np.maximum(d, 0.0), V.T @ (size * b[kept])
    mean[kept], root[kept] = size * (V @ (z / (1 + d))), size[:, None] * V / np.sqrt(1 + d)
    return mean, root, 0.5 * float(np.sum(z**2 / (1 + d) - np.log1p(d)))


def _likeliest_variance(H, b, kind, prior, choices):
    """The variance, or 0, of coefficients of a kind that makes the record likeliest, given the prior of the others."""
    if not len(kind):
        return 0.0
    others = np.setdiff1d(np.flatnonzero(prior), kind)
    S, b_kind = H[np.ix_(kind, kind)], b[kind]
    if len(others):
        cross = H[np.ix_(kind, others)]
        known = H[np.ix_(others, others)] + np.diag(1 / prior[others])
        known = np.linalg.solve(known, np.column_stack([cross.T, b[others]]))
        S, b_kind = S - cross @ known[:, :-1], b_kind - cross @ known[:, -1]
    d, V = np.linalg.eigh(S)
    d, z = np.maximum(d, 0.0), V.T @ b_kind
    best = 0.0, 0.0
    for variance in choices / len(kind):
        value = 0.5 * float(np.sum(variance * z**2 / (1 + variance * d) - np.log1p(variance * d)))
        best = max(best, (value, variance))
    return best[1]


def _whitener(series):
    """Coefficients ``[1, -a_1, -a_2, ...]`` that make an autoregression white."""
    order = min(TUNING.curvature_noise_order, *(len(x) // 2 for x in series))
    n_rows = sum(map(len, series))
    moments = np.array([sum(x[k:] @ x[: len(x) - k] for x in series) / n_rows for k in range(order + 1)])
    moments[0] *= 1 + TUNING.curvature_jitter
    if not order or not moments[0] > 0:
        return np.ones(1)
    return np.concatenate([[1.0], -solve_toeplitz(moments[:-1], moments[1:])])
