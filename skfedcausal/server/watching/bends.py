"""What curves of the states do to the next ones, taken off before anything is judged.

A linear plant takes what a curved coupling does to another unit for news of that unit: the size of a state, a product
of two. States follow ``x_t = A x_(t-1) + f(x_(t-1)) + w_t`` where f has no linear part in the nominal record. The
response ``r_t = A r_(t-1) + f(x_(t-1))`` is taken off the states, so that what is left is a linear plant with the same
A. Of all curves those are taken that pay for themselves, and only into states whose rows that are left out confirm
them. Beyond what was seen they are drawn from their prior: by as much as that is wide, news counts less.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri
from sklearn.base import clone

from ...statespace.episodes import episodes
from ...statespace.held_out import LOCAL, LaggedRows
from ...statespace.matrices import companion, spectral_radius
from ...statespace.partition import slices_of
from ..curved import Curves, held_out_losses, likeliest_priors
from ..links.grades import SURE, trimmed
from .inputs import Outside, states_of, without_response
from .nominal import off_subspace
from .tuning import TUNING

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

    As recorded and less what moves slowly: what two states have in common while they drift is no curve.
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
    least = np.min([_least_gain(past, now, priors, lines.stop) for past, now in both], axis=0)
    found = {}
    for k in np.flatnonzero(least > _WORTH):
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
