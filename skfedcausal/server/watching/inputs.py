"""What inputs of a plant and curves of its states do, taken off before anything is judged."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.special import chdtri
from sklearn.base import clone

from ...statespace.episodes import episodes
from ...statespace.held_out import LOCAL, LaggedRows
from ...statespace.kalman import Recurrence
from ...statespace.matrices import cap_radius, companion, slices_of, spectral_radius
from ..curved import Curves, held_out_losses, likeliest_priors
from ..links.grades import NEGLIGIBLE, SURE, trimmed
from .thresholds import RATES, ewma, off_subspace, quadratic_scale
from .tuning import TUNING

# What the inputs of a plant do to its states, taken off before anything is judged.
#
# States follow set-points, loads or weather as ``x_t = x_(t-1) B + F_t G``, F being the inputs of the row and the row
# before and slow averages of them. The response ``r_t = r_(t-1) B + F_t G`` is taken off the states, so that the
# innovations of what is left are those given the inputs. How well B and G are known widens the innovations after a
# move, and averages of them by more: what is wrong with a response lasts. A level of the inputs at which nearly nothing
# is known of the plant is learned before it is judged, unless the plant is soon seen to do there what the response lets
# expect.

LEARNED = 130  # rows after a move to an unknown level of the inputs before the plant is judged there
FORESEEN = 30  # rows after which it is judged there already if it does what the response lets expect
_RATES = (0.4, 0.1, 0.03)  # of the averages
_RIDGE = 1e-4  # share of the mean square of a filtered input
_LARGE = 0.01  # share of the largest mean square of a unit's states, from which on another counts; least variance
# powers 0, 1 and 2 of q in the variance of a noncentral number of mean 1 + q, and of what its mean is wrong by
_NONCENTRAL = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])


class InputState(NamedTuple):
    """Where the response stands after a row: itself, the inputs of the row as they enter it, their averages, what it
    is computed from, averages of that at the rates of shifts, the inputs themselves, and how far these are `beyond`
    their ranges."""

    response: np.ndarray
    last: np.ndarray
    averages: tuple
    regressors: np.ndarray
    smooth: tuple
    inputs: np.ndarray
    beyond: float = 0.0


class Followed(NamedTuple):
    """Response (n_rows, n), leverage of each row, and what is known of the plant at its inputs, (n_rows,).

    `doubt` is the variance of averages of innovations at the rates of shifts over that in the nominal record,
    (n_rows, n_rates), None of a plant without inputs. `unknown` is 0 where the plant is known, 1 where the response may
    foresee it, and 2 where it has to be learned. `beyond` is by how many halves of its range in the nominal record an
    input is beyond that, or was, which is forgotten as the slowest average forgets it: what inputs do is an
    extrapolation there.
    """

    response: np.ndarray | None
    leverage: np.ndarray
    doubt: np.ndarray | None
    unknown: np.ndarray
    beyond: np.ndarray

    @classmethod
    def without_inputs(cls, n_rows):
        """Rows of a plant without inputs, which is known everywhere."""
        nothing = np.zeros(n_rows)
        return cls(None, nothing, None, np.zeros(n_rows, dtype=int), nothing)


@dataclass(frozen=True, eq=False)
class InputResponse:
    """Response of all states to all inputs.

    B, (n, n), and G, (k filters, n), with the mean and scale of the inputs, (k,), zero for one that never moved, and
    the inverse information `known` of last states and filtered inputs, how far each input was from its mean, and its
    least and largest value, `limits` (2, k).
    `kept`, (n_rates,), is the share of the variance of averages at the rates of shifts that the fit left in its record.
    """

    B: np.ndarray
    G: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    known: np.ndarray
    reach: np.ndarray
    limits: np.ndarray
    kept: np.ndarray | float = 1.0

    @classmethod
    def learn(cls, record):
        """From a record of all units, by least squares over rows in which every unit is there."""
        u, n_rows = record.u, record.n_samples
        mean, scale = u.mean(axis=0), u.std(axis=0)
        scale = np.where(scale > 1e-9 * np.maximum(np.abs(mean), 1e-300), scale, 0.0)
        reach, limits = np.abs(u - mean).max(axis=0), np.array([u.min(axis=0), u.max(axis=0)])
        bare = cls(np.eye(0), np.zeros((0, 0)), mean, scale, np.zeros((0, 0)), reach, limits)
        x, there = states_of(record)
        F, kept = np.zeros((n_rows, len(mean) * (2 + len(_RATES)))), np.zeros(n_rows, dtype=bool)
        for start, stop in episodes(record.starts, n_rows):
            F[start:stop] = bare.filtered(u[start:stop], None)[0]
            kept[start + 1 : stop] = there[start : stop - 1] & there[start + 1 : stop]
        rows = np.flatnonzero(kept)
        if not len(rows):
            raise ValueError(
                f"In none of {n_rows} rows and the row before it every unit tells of all its states, and others do not "
                "show what inputs do. Give a record with fewer holes, or leave the inputs out."
            )
        past = np.column_stack([x[rows - 1], np.ones(len(rows))])
        F = F[rows]
        rest = F - past @ np.linalg.lstsq(past, F, rcond=None)[0]
        ridge = _RIDGE * len(rows) * np.eye(F.shape[1])
        G = np.linalg.solve(rest.T @ rest + ridge, rest.T @ x[rows])
        B = np.linalg.lstsq(past, x[rows] - F @ G, rcond=None)[0][:-1]
        moved = np.column_stack([past[:, :-1], F])
        moved -= moved.mean(axis=0)
        return replace(bare, B=cap_radius(B, TUNING.inputs_radius), G=G, known=_inverse(moved.T @ moved))

    def filtered(self, u, state):
        """F of the next rows of an episode, (n_rows, k filters), and the inputs and averages after them."""
        inside = np.where(self.scale > 0, (u - self.mean) / np.where(self.scale > 0, self.scale, 1.0), 0.0)
        last = inside[0] if state is None else state.last
        averages = (inside[0],) * len(_RATES) if state is None else state.averages
        before = np.concatenate([last[None], inside[:-1]])
        smooth = [ewma(before, rate, average) for rate, average in zip(_RATES, averages, strict=True)]
        return np.hstack([inside, before, *smooth]), inside[-1], tuple(part[-1] for part in smooth)

    def follow(self, u, state, levels):
        """The :class:`Followed` next rows of an episode and the state after them.

        `levels` are the InputStates at which the plant is known, the first one by itself and the others by the response
        from there on; None for the nominal mean of the inputs.
        """
        F, last, averages = self.filtered(u, state)
        response = np.empty((len(u), len(self.B)))
        if state is None:
            before = response[0] = F[0, : len(self.mean)] @ self._gain
        else:
            before, response[0] = state.response, state.response @ self.B + F[0] @ self.G
        pushed = F @ self.G
        Recurrence(self.B.T).run((pushed[1:], None), x0=response[0], out=response[1:])
        rows = np.hstack([np.vstack([before, response[:-1]]), F])
        first = (rows[0],) * (len(RATES) - 1) if state is None else state.smooth
        smooth = [ewma(rows, rate, average) for rate, average in zip(RATES[1:], first, strict=True)]
        beyond = self._beyond(u, 0.0 if state is None else state.beyond, levels[0])
        stands = last, averages, rows[-1], tuple(part[-1] for part in smooth), u[-1], float(beyond[-1])
        after = InputState(response[-1], *stands)
        unknown = np.min([self._unknown_from(level, rows, u) for level in levels], axis=0)
        origin = 0.0 if levels[0] is None else levels[0].regressors
        lasting = [(2 - rate) / rate * self._leverage(x - origin) for rate, x in zip(RATES[1:], smooth, strict=True)]
        doubt = (1 + np.column_stack(lasting)) / self.kept
        return Followed(response, self._leverage(rows - origin), doubt, unknown, beyond), after

    def studentised(self, parts):
        """The response with the share that its fit left of averages, from the :class:`Followed` parts of its record.

        Thresholds are set on these residuals, whose variance is less by as much as that of new ones is more (Cook &
        Weisberg 1982, Residuals and Influence in Regression, section 2.2).
        """
        taken = np.concatenate([part.doubt for part in parts]).mean(axis=0) - 1
        return replace(self, kept=np.maximum(1 - taken, TUNING.inputs_least_kept))

    def _beyond(self, u, before, level):
        """How far inputs are `beyond` their ranges, after a row with `before`; a level is none where it was learned."""
        low, high = self.limits
        half = (high - low) / 2
        if level is not None:
            low, high = np.minimum(low, level.inputs), np.maximum(high, level.inputs)
        out = np.maximum(low - u, u - high)
        out = np.where(out > 1e-9 * np.maximum(np.abs(low), np.abs(high)), out, 0.0)
        far = np.divide(out, half, out=np.where(out > 0, TUNING.inputs_farthest, 0.0), where=half > 0)
        return _forgotten(np.minimum(far.max(axis=1), TUNING.inputs_farthest), before)

    @cached_property
    def _gain(self):
        """Steady response to every input, (k, n)."""
        summed = self.G.reshape(2 + len(_RATES), len(self.mean), -1).sum(axis=0)
        return np.linalg.solve(np.eye(len(self.B)) - self.B.T, summed.T).T

    def _leverage(self, away):
        """Variance of what B and G are wrong by, over that of innovations, in rows (last response, F)."""
        return ((away @ self.known) * away).sum(axis=1)

    def _unknown_from(self, level, rows, u):
        """What is known of the plant in rows if it is known at one level of the inputs."""
        n, k = len(self.B), len(self.mean)
        away = (rows if level is None else rows - level.regressors)[:, n : n + k]
        steady = np.hstack([away @ self._gain, np.tile(away, 2 + len(_RATES))])
        beside = np.abs(u - (self.mean if level is None else level.inputs)) - 1e-9 * np.abs(self.mean)
        further = beside > TUNING.inputs_further * self.reach
        new = (further & (self.scale == 0)).any(axis=1)
        doubtful = further.any(axis=1) | (self._leverage(steady) > TUNING.inputs_unknown)
        return np.where(new, 2, doubtful)


def _forgotten(values, before):
    """Values, (n_rows,), or what is left of a larger earlier one as the slowest average forgets it."""
    if not (before or values.any()):
        return values
    decay = -np.log1p(-_RATES[-1]) * np.arange(len(values) + 1)
    with np.errstate(divide="ignore"):
        largest = np.maximum.accumulate(np.log(np.append(before, values)) + decay)
    left = np.exp(largest - decay)[1:]
    return np.where(left > TUNING.inputs_little, left, 0.0)


def _inverse(information):
    """Inverse of an information matrix whose regressors may determine each other, or not move at all."""
    scale = np.sqrt(np.diag(information))
    scale[scale == 0] = 1.0
    scaled = information / np.outer(scale, scale) + TUNING.inputs_jitter * np.eye(len(scale))
    return np.linalg.inv(scaled) / np.outer(scale, scale)


def states_of(record):
    """States as measured, zero for absent units, (n_rows, n), and whether all units are there, (n_rows,)."""
    x, there = np.zeros_like(record.z), np.ones(record.n_samples, dtype=bool)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        seen = part.determined_rows
        J = part.patterns if part.is_constant and seen.all() else part.patterns[part.pattern_of[seen]]
        x[seen, b] = np.linalg.solve(J, part.z[seen][:, :, None])[:, :, 0]
        there &= seen
    return x, there


class Outside:
    """What the states that inputs drive far do to the off-subspace numbers of units.

    A unit knows its subspace from a record, so that its states show off it by the squares of how far they are: of what
    inputs do and of what the plant does by itself together, which is why the states are those measured. Such a number
    is noncentral: where states are far it varies less beside its mean. Numbers are told as if all states were at their
    mean, by Wilson & Hilferty's normal scores (1931, The distribution of chi-square, PNAS 17): of a gamma variable with
    the mean and the variance there, to one of those at rest.
    """

    def __init__(self, states, distance, slices):
        self._slices, self._usual = slices, distance.mean(axis=0)
        self._expected = [_expected(states[:, b], g) for b, g in zip(slices, distance.T, strict=True)]

    def without(self, messages, states):
        """Messages with off-subspace numbers that are as large as usual wherever the states are."""
        bare = dict(messages)
        for (name, one), b, usual, (least, root, variance) in zip(
            messages.items(), self._slices, self._usual, self._expected, strict=True
        ):
            if one.off_subspace is not None:
                moved = ((states[:, b] @ root) ** 2).sum(axis=1) / least
                here, at_rest = _powers(moved) @ variance / (1 + moved) ** 2 / 9, variance[0] / 9
                score = (np.cbrt(one.off_subspace / least / (1 + moved)) - 1 + here) / np.sqrt(here)
                alike = usual * np.maximum(1 - at_rest + np.sqrt(at_rest) * score, 0.0) ** 3
                bare[name] = replace(one, off_subspace=np.where(one.off_subspace > 0, alike, 0.0))
        return bare


def _expected(states, distance):
    """What is expected of the off-subspace number of a unit: ``a (1 + q)``, ``q = |x R|^2 / a``, and its variance.

    That is ``a^2 (c_0 (1 + 2 q) + c_2 q^2)``, of a noncentral number with what its mean is wrong by.
    """
    values, vectors = np.linalg.eigh(states.T @ states)
    large = values > _LARGE * max(values[-1], 1e-300)
    if not distance.any() or not large.any():
        return max(distance.mean(), 1e-300), np.zeros((states.shape[1], 1)), np.array([1.0, 0.0, 0.0])
    least, root = quadratic_scale(states @ vectors[:, large], distance)
    root = vectors[:, large] @ root
    moved = ((states @ root) ** 2).sum(axis=1) / least
    relative = _powers(moved) / (1 + moved[:, None]) ** 2 @ _NONCENTRAL
    variance = nnls(relative, (distance / least / (1 + moved) - 1) ** 2)[0]
    variance[0] = max(variance[0], _LARGE)
    return least, root, _NONCENTRAL @ variance


def _powers(moved):
    """Numbers, (n_rows,), to the powers 0, 1 and 2, (n_rows, 3)."""
    return moved[:, None] ** np.arange(3)


def without_response(messages, names, slices, response):
    """Messages in the order of these names, without inputs and what they do to the states, (n_rows, n)."""
    bare = {}
    for name, b in zip(names, slices, strict=True):
        message = messages[name]
        J = message.patterns[0] if message.index is None else message.patterns[message.index]
        moved = response[:, b] @ J if message.index is None else np.einsum("tij,tj->ti", J, response[:, b])
        bare[name] = replace(message, z=message.z - moved, inputs=None, input_matrix=None)
    return bare


def learned_without(record, messages):
    """The response to the inputs of a record, and the messages without it."""
    response = InputResponse.learn(record)
    return response, without(response, record, messages)


def without(response, record, messages):
    """Messages about whole episodes, in the order of the record's units, without what their inputs do."""
    moved = np.concatenate([part.response for part in _parts(response, record)])
    return without_response(messages, record.names, record.partition.slices, moved)


def bare_nominal(record, messages):
    """The response to the inputs of a record, what they do :class:`Outside`, and the messages without either."""
    response, slices = InputResponse.learn(record), record.partition.slices
    parts, states = _parts(response, record), states_of(record)[0]
    outside = Outside(states, off_subspace(messages, record), slices)
    bare = without_response(messages, record.names, slices, np.concatenate([part.response for part in parts]))
    return response.studentised(parts), outside, outside.without(bare, states)


def _parts(response, record):
    """What is :class:`Followed` of every episode of a record."""
    bounds = episodes(record.starts, record.n_samples)
    return [response.follow(record.u[start:stop], None, (None,))[0] for start, stop in bounds]


# What curves of the states do to the next ones, taken off before anything is judged.
#
# A linear plant takes what a curved coupling does to another unit for news of that unit: the size of a state, a product
# of two. States follow ``x_t = A x_(t-1) + f(x_(t-1)) + w_t`` where f has no linear part in the nominal record. The
# response ``r_t = A r_(t-1) + f(x_(t-1))`` is taken off the states, so that what is left is a linear plant with the
# same A. Of all curves those are taken that pay for themselves, and only into states whose rows that are left out
# confirm them. Beyond what was seen they are drawn from their prior: by as much as that is wide, news counts less.

_MOST_KNOTS, _FEWEST_KNOTS, _ROWS = 12, 5, 20  # of each state within what was seen; rows for each
_TAILS = 0.0, 0.02, 0.16  # beyond bounds of states in products: as far as they were seen, two deviations, and one
_WORTH = 0.1  # share of a state's news: curves that surely tell less hardly mislead a linear plant
_TINY = 1e-9  # prior precision of what is no curve, and deviation of a column that tells nothing


class BentState(NamedTuple):
    """Where the response stands after a row: its last rows (p, n), the states (n,), and which of these are there."""

    responses: np.ndarray
    states: np.ndarray
    there: np.ndarray


class Bend(NamedTuple):
    """Curves into one state: columns, coefficients, the root of their covariance over the news, and its deviation."""

    columns: np.ndarray
    coefficients: np.ndarray
    root: np.ndarray
    news: float


@dataclass(frozen=True, eq=False)
class CurvedResponse:
    """Response of all states to curves of those in the row before."""

    A: np.ndarray  # (p, n, n) of lags 1 to p
    curves: Curves
    bends: dict  # of the states, `Bend`
    level: np.ndarray  # (n,) of the states in the nominal record
    scale: np.ndarray  # (n,) their standard deviations
    outside: Outside
    slices: tuple

    @classmethod
    def learned(cls, plant, record, messages):
        """The response, the plant and messages without it, and what it was, (n_rows, n); None where lines are enough.

        That is of curves which a quarter of the rows did not teach: thresholds are set on what it leaves. A server
        whose regressor learns curves by itself keeps them.
        """
        found = None if getattr(plant, "regressor", None) is not None else cls.learn(plant, record, messages)
        if found is None:
            return None
        response, rows, held_out = found
        x, there = shown(record)
        bounds = episodes(record.starts, record.n_samples)
        columns = [response.past(x[a:b], there[a:b], response.begun)[1] for a, b in bounds]
        pushed = np.concatenate([response.pushed(of) for of in columns])
        for effect, values in held_out.items():
            pushed[rows, effect] = values
        moved = np.concatenate([response.carried(pushed[a:b], response.begun) for a, b in bounds])
        bare = response.without(record, messages, moved)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said of the whole record already
            return response, clone(plant).fit(bare), bare, moved

    @classmethod
    def learn(cls, plant, record, messages):
        """The response, rows, and what curves that others taught do in these, by state; None where lines are enough.

        So it is where there are many states or few rows, too, and of a plant that drifts.
        """
        A = getattr(plant, "lag_transitions_", plant.transition_[None])
        states, there = states_of(record)
        n = states.shape[1]
        if n > TUNING.bends_most_states or spectral_radius(companion(np.hstack(list(A)), len(A))) > TUNING.bends_radius:
            return None
        lagged = LaggedRows.of(np.column_stack([states, there]), [slice(0, n + 1)], record.starts, len(A))
        known = lagged.values[:, n :: n + 1].all(axis=1)
        rows = lagged.at[known]
        n_knots = min(len(rows) // (_ROWS * n), _MOST_KNOTS)
        if n_knots < _FEWEST_KNOTS:
            return None
        level = states[there].mean(axis=0)
        past, now = states[rows - 1] - level, states[rows] - level
        lines = np.hstack([states[rows - lag] - level for lag in range(1, len(A) + 1)])
        curves = Curves.of(past, n_knots, _TAILS)
        values = np.hstack([lines - lines.mean(axis=0), curves(past), now - now.mean(axis=0)])
        of_past = slices_of([lines.shape[1], len(curves.scale)])
        starts = tuple(np.unique(np.searchsorted(rows, record.starts)).tolist())
        at = LaggedRows(values, of_past, (slice(of_past[-1].stop, values.shape[1]),), starts, rows)
        bends, held_out = _bends(at, curves.groups, record.partition.slices)
        if not bends:
            return None
        scale, slices = np.maximum(states[there].std(axis=0), _TINY), tuple(record.partition.slices)
        outside = Outside((states - level) / scale, off_subspace(messages, record), slices)
        return cls(A, curves, bends, level, scale, outside, slices), rows, held_out

    @property
    def begun(self):
        """State before the first row of an episode: nothing is known of the rows before."""
        p, n = self.A.shape[:2]
        return BentState(np.zeros((p, n)), self.level, np.zeros(n, dtype=bool))

    def follow(self, x, there, state):
        """Response of the next rows of an episode, how much less news counts, by unit, and the state after them.

        Parameters
        ----------
        x, there : ndarray of shape (n_rows, n)
            States as measured, and which of them are, see :func:`shown`.
        state : BentState
            After the rows before, None at the beginning of an episode.

        Returns
        -------
        response : ndarray of shape (n_rows, n)
        unknown : ndarray of shape (n_rows, n_units)
            Variance of what curves are wrong by, over that of the news.
        state : BentState
        """
        state = self.begun if state is None else state
        past, columns = self.past(x, there, state)
        unknown, found = self._unknown(past, columns), self.carried(self.pushed(columns), state)
        by_unit = np.column_stack([unknown[:, own].mean(axis=1) for own in self.slices])
        last = np.vstack([state.responses, found])[-len(self.A) :]
        return found, by_unit, BentState(last, x[-1], there[-1])

    def carried(self, pushed, state):
        """Response from what curves do to each row, both (n_rows, n)."""
        p, found = len(self.A), np.vstack([state.responses, pushed])
        for t in range(p, len(found)):
            for lag, A in enumerate(self.A, 1):
                found[t] += A @ found[t - lag]
        return found[p:]

    def past(self, x, there, state):
        """States before rows that follow a state, and what curves make of them, (n_rows, n) and (n_rows, c).

        Of states that are not there nothing is known: their curves are at their mean.
        """
        past, seen = np.vstack([state.states, x[:-1]]) - self.level, np.vstack([state.there, there[:-1]])
        return past, np.where(self._unseen(seen), 0.0, self.curves(past))

    def pushed(self, columns):
        """What curves do to the next states, (n_rows, n)."""
        pushed = np.zeros((len(columns), len(self.level)))
        for effect, bend in self.bends.items():
            pushed[:, effect] = columns[:, bend.columns] @ bend.coefficients
        return pushed

    def _unknown(self, past, columns):
        """The variance of that over the news, (n_rows, n): whether products go on beyond what was seen is open, too."""
        unknown, further = np.zeros((len(past), len(self.level))), self._unheld(past)
        for effect, bend in self.bends.items():
            own = columns[:, bend.columns]
            beyond = np.where(own != 0, further[:, bend.columns] - own, 0.0)
            unknown[:, effect] = np.square(own @ bend.root).sum(axis=1)
            unknown[:, effect] += np.square(beyond @ bend.coefficients / bend.news)
        return unknown

    @cached_property
    def _unheld(self):
        """The curves with products that are held nowhere beyond what was seen."""
        widest = np.stack([np.full_like(self.level, -np.inf), np.full_like(self.level, np.inf)])
        return replace(self.curves, bounds=np.concatenate([widest[None], self.curves.bounds[1:]]))

    def _unseen(self, seen):
        """Which curves are of states that are not there, (n_rows, c)."""
        first, second = np.triu_indices(seen.shape[1], 1)
        return ~np.hstack([seen, seen[:, first] & seen[:, second]])[:, self.curves.groups]

    def without(self, record, messages, response):
        """Messages without the response, whose off-subspace numbers are as if the states were at rest."""
        bare = without_response(messages, record.names, self.slices, response)
        return self.outside.without(bare, (states_of(record)[0] - self.level) / self.scale)


def shown(record):
    """States as measured, and which of them are, both (n_rows, n)."""
    sizes = [own.stop - own.start for own in record.partition.slices]
    there = np.column_stack([part.determined_rows for part in record.parts])
    return states_of(record)[0], there.repeat(sizes, axis=1)


def _bends(rows, groups, units):
    """`Bend` into states, and what those without a fold of the rows do in it, (n_rows,), both by state.

    From rows whose past are lines and then columns in groups; `units` are the states of each unit.
    """
    lines, columns = rows.past
    present = rows.values[:, columns.stop :]
    moves = np.flatnonzero(rows.values[:, columns].std(axis=0) > _TINY)
    order = moves[np.argsort(groups[moves], kind="stable")]
    kinds, sizes = np.unique(groups[order], return_counts=True)
    past = slices_of([lines.stop, *sizes])
    found: dict[int, Bend] = {}
    held_out: dict[int, np.ndarray] = {}
    n_past, n_now = past[-1].stop, present.shape[1]
    values = np.hstack([rows.values[:, lines], rows.values[:, lines.stop + order], present])
    moments = replace(rows, values=values, past=past, now=(slice(n_past, n_past + n_now),)).moments(1)
    chance = TUNING.bends_chance / (len(kinds) * len(units))
    for own in units:
        used = np.concatenate([np.arange(n_past), n_past + np.arange(own.start, own.stop)])
        now = (slice(n_past, len(used)),)
        into = replace(moments, sums=moments.sums[:, used[:, None], used], now=now)
        chosen = into.chosen(0, lambda width: chdtri(width, chance))
        if chosen:
            places = [np.flatnonzero(groups == kinds[k - 1]) for k in chosen]
            for effect, (bend, told) in _confirmed(rows, own, places).items():
                found[effect], held_out[effect] = bend, told
    return found, held_out


def _confirmed(rows, own, chosen):
    """The same of the states of a unit whose rows that are left out confirm what some groups of columns tell.

    They are worth it as recorded, and tell something less what moves slowly, too: what two states have in common while
    they drift is no curve.
    """
    lines, columns = rows.past
    places = np.concatenate(chosen)
    kinds = np.repeat(np.arange(1 + len(chosen)), [lines.stop, *map(len, chosen)])
    at = np.concatenate([np.arange(lines.stop), lines.stop + places])
    at = np.concatenate([at, columns.stop + np.arange(own.start, own.stop)])
    used = replace(rows, values=rows.values[:, at])
    both = [np.split(part.values, [len(kinds)], axis=1) for part in (used, used.around_lines(LOCAL))]
    X, y = both[0]
    priors = likeliest_priors(X, kinds, y)
    recorded, local = (_least_gain(past, now, priors, lines.stop) for past, now in both)
    found = {}
    for k in np.flatnonzero((recorded > _WORTH) & (local > NEGLIGIBLE)):
        root = np.linalg.cholesky(X.T @ X + np.diag(priors[k]))
        spread = np.linalg.inv(root).T  # its square is the covariance
        coefficients = spread @ (spread.T @ (X.T @ y[:, k]))
        news = float((y[:, k] - X @ coefficients).std())
        bend = Bend(places, coefficients[lines.stop :], spread[lines.stop :], news)
        found[own.start + int(k)] = bend, _held_out(X, y[:, k], priors[k], lines.stop)
    return found


def _held_out(X, y, prior, n_lines):
    """What columns beyond the first ones tell in each fold by coefficients that the others taught, (n_rows,)."""
    G, g, told = X.T @ X + np.diag(prior), X.T @ y, []
    for part, seen in zip(np.array_split(X, TUNING.bends_folds), np.array_split(y, TUNING.bends_folds), strict=True):
        coefficients = np.linalg.solve(G - part.T @ part, g - part.T @ seen)
        told.append(part[:, n_lines:] @ coefficients[n_lines:])
    return np.concatenate(told)


def _least_gain(X, y, priors, n_lines):
    """Lower bound on the share of each state's news that columns tell beyond the first ones, on stretches left out."""
    loss = held_out_losses(X[:, :n_lines], y, np.full((y.shape[1], n_lines), _TINY))
    gain, error = trimmed(((loss - held_out_losses(X, y, priors)) / loss.mean(axis=0)).T)
    return gain - SURE * error
