"""What the inputs of a plant do to its states, taken off before anything is judged.

States follow set-points, loads or weather as ``x_t = x_(t-1) B + F_t G``, F being the inputs of the row and the row
before and slow averages of them. The response ``r_t = r_(t-1) B + F_t G`` is taken off the states, so that the
innovations of what is left are those given the inputs. How well B and G are known widens the innovations after a
move, and averages of them by more: what is wrong with a response lasts. A level of the inputs at which nearly nothing
is known of the plant is learned before it is judged, unless the plant is soon seen to do there what the response lets
expect.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from ...statespace.episodes import episodes
from ...statespace.kalman import Recurrence
from ...statespace.matrices import cap_radius
from .nominal import off_subspace, quadratic_scale
from .thresholds import RATES, ewma
from .tuning import TUNING

LEARNED = 130  # rows after a move to an unknown level of the inputs before the plant is judged there
FORESEEN = 30  # rows after which it is judged there already if it does what the response lets expect
_RATES = (0.4, 0.1, 0.03)  # of the averages
_RIDGE = 1e-4  # share of the mean square of a filtered input
_LARGE = 0.01  # share of the largest mean square of a unit's states, from which on another counts; least variance
_SETTLED = 40  # rows after a switch before a mode is learned from
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
    """Response (n_rows, n), leverage of each row, what is known of the plant at its inputs, and its mode, (n_rows,).

    `doubt` is the variance of averages of innovations at the rates of shifts over that in the nominal record,
    (n_rows, n_rates), None of a plant without inputs. `unknown` is 0 where the plant is known, 1 where the response may
    foresee it, and 2 where it has to be learned. `mode` is the place among the few that inputs have, -1 for another
    one. `beyond` is by how many halves of its range in the nominal record an input is beyond that, or was, which is
    forgotten as the slowest average forgets it: what inputs do is an extrapolation there.
    """

    response: np.ndarray | None
    leverage: np.ndarray
    doubt: np.ndarray | None
    unknown: np.ndarray
    mode: np.ndarray
    beyond: np.ndarray

    @classmethod
    def without_inputs(cls, n_rows):
        """Rows of a plant without inputs, which is known everywhere."""
        nothing, nowhere = np.zeros(n_rows), np.zeros(n_rows, dtype=int)
        return cls(None, nothing, None, nowhere, nowhere - 1, nothing)


class Modes:
    """Errors of a watch in each of the few modes that inputs tell, beyond what nominal rows show, (n_modes, n).

    Quiet rows are taken in block by block, each after another one without an alarm: a fault may last for long before
    it is one.
    """

    def __init__(self, n_rows, n_states):
        self._n_rows, self.steps = np.array(n_rows, dtype=float), np.zeros((len(n_rows), n_states))
        self._last, self._age, self._alarm = -1, 0, False
        self._now, self._before = self._empty(), self._empty()

    def _empty(self):
        """Rows of each mode and the sums of their errors."""
        return np.zeros(len(self.steps)), np.zeros_like(self.steps)

    def add(self, errors, modes, quiet):
        """Take note of rows, (n_rows, n), and of those that are quiet and after their mode has settled."""
        settled = self.skip(modes) >= _SETTLED
        self._alarm = self._alarm or not quiet.all()
        count, sums = self._now
        for mode in np.flatnonzero(np.bincount(modes[settled] + 1, minlength=len(self.steps) + 1)[1:]).tolist():
            rows = settled & (modes == mode)
            count[mode] += rows.sum()
            sums[mode] += (errors[rows] + self.steps[mode]).sum(axis=0)

    def skip(self, modes):
        """Take note of the modes of rows that nothing is learned from; rows since their mode was switched to."""
        rows = np.arange(len(modes))
        switches = np.where(np.append(self._last, modes[:-1]) != modes, rows, -1 - self._age)
        ages = rows - np.maximum.accumulate(switches)
        self._last, self._age = modes[-1], ages[-1]
        return ages

    def learn(self):
        """End a block, and take in the one before if there was no alarm since."""
        if self._alarm:
            self._now = self._empty()
        else:
            count, sums = self._before
            self.steps = (self._n_rows[:, None] * self.steps + sums) / (self._n_rows + count)[:, None]
            self._n_rows += count
        self._now, self._before, self._alarm = self._empty(), self._now, False


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
    modes: tuple = ()  # rows of inputs, (n_modes, k), and how often they came, where they are few

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
        known, modes = _inverse(moved.T @ moved), _few(u)
        return replace(bare, B=cap_radius(B, TUNING.inputs_radius), G=G, known=known, modes=modes)

    def filtered(self, u, state):
        """F of the next rows of an episode, (n_rows, k filters), and the inputs and averages after them."""
        inside = np.where(self.scale > 0, (u - self.mean) / np.where(self.scale > 0, self.scale, 1.0), 0.0)
        last = inside[0] if state is None else state.last
        averages = (inside[0],) * len(_RATES) if state is None else state.averages
        before = np.concatenate([last[None], inside[:-1]])
        smooth = [ewma(before, rate, average) for rate, average in zip(_RATES, averages, strict=True)]
        return np.hstack([inside, before, *smooth]), inside[-1], tuple(part[-1] for part in smooth)

    @property
    def tells_modes(self):
        """Whether the inputs have so few values that these are modes."""
        return len(self.modes) > 0

    def begun(self):
        """The :class:`Modes` of a watch that begins, None where inputs are no modes."""
        return Modes(self.modes[1], len(self.B)) if self.tells_modes else None

    def _mode_of(self, u):
        """Place of the mode of each row, -1 for none of them."""
        if not self.tells_modes:
            return np.full(len(u), -1)
        same = (u[:, None] == self.modes[0]).all(axis=2)
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)

    def follow(self, u, state, levels, modes=None):
        """The :class:`Followed` next rows of an episode and the state after them.

        `levels` are the InputStates at which the plant is known, the first one by itself and the others by the response
        from there on; None for the nominal mean of the inputs. `modes` are the Modes of the watch so far.
        """
        mode = self._mode_of(u)
        F, last, averages = self.filtered(u, state)
        response = np.empty((len(u), len(self.B)))
        if state is None:
            before = response[0] = F[0, : len(self.mean)] @ self._gain
        else:
            before, response[0] = state.response, state.response @ self.B + F[0] @ self.G
        pushed = F @ self.G
        if modes is not None:
            pushed += np.where(mode[:, None] >= 0, modes.steps[mode], 0.0)
            if state is not None:
                response[0] = before @ self.B + pushed[0]
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
        return Followed(response, self._leverage(rows - origin), doubt, unknown, mode, beyond), after

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


def _few(u):
    """Different rows of inputs and how often they came, where they are few."""
    if len(np.unique(u[:200], axis=0)) > TUNING.inputs_most_modes:
        return ()
    rows, counts = np.unique(u, axis=0, return_counts=True)
    return (rows, counts) if 1 < len(rows) <= TUNING.inputs_most_modes else ()


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
