"""What a watched unit learns of nominal rows, what it answers, and which of its tags it blames."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import cho_solve_banded, cholesky, cholesky_banded, solve_triangular
from scipy.special import ndtri
from sklearn.base import clone

from ..bases import group_of
from ..message import requests
from ..message.packet import PacketError
from ..message.requests import FlagMessage, FlagsRequest, VerdictReply, WatchRequest
from ..message.states import Acknowledgement
from ..statespace.episodes import lagged_rows
from . import worker
from .fitting import with_fit
from .kalman import KalmanClient
from .moments import complete_before
from .monitor import monitored
from .records import Habits, Passed, release_pages
from .tuning import TUNING
from .worker import handles, off_baseline

# Which of its own tags a unit blames for something unusual, judged locally from its own rows.
#
# A vector autoregression of all tags of the unit says what is unusual about a segment of rows. For each tag in turn
# the segment is judged once more as if that tag had told nothing: the tag without which least is unusual is to
# blame. There are three ways in which a tag may mislead, and the best of them counts [1]_:
#
# - it shows a wrong value that nothing reads, so that it is wrong in the rows after it, too;
# - it shows a wrong value that controllers read: tags that follow it alone in the same row follow what it shows;
# - it really moves as it should not (a valve that sticks), and the other tags follow what it does.
#
# References
# ----------
# .. [1] Tsay, Peña, Pankratz (2000), Outliers in multivariate time series, Biometrika 87(4): additive and innovational
#        outliers.

_LAGS = 3
_RIDGE = 1e-4  # added to scaled covariances
_LEAST_ROWS, _MOST_ROWS = 50, 100  # after an alarm that are looked at


def window_of(onset, detected, last, n_rows):
    """Rows by which tags are judged, (start, stop): a fault may go on when its alarm has ended."""
    return onset, min(max(last + 1, detected + _LEAST_ROWS), detected + _MOST_ROWS, n_rows)


@dataclass(frozen=True)
class Blame:
    """What a unit finds of its own tags in some rows: best first.

    `order`, (n_tags,), positions of tags; `explained`, the share of what is unusual that goes without each;
    `why`, words for each, empty where there are none.
    """

    order: np.ndarray
    explained: np.ndarray
    why: tuple[str, ...]


@dataclass(frozen=True)
class TagModel:
    """Autoregression of a unit's tags in nominal operation, in tags of unit variance."""

    mean: np.ndarray
    scale: np.ndarray  # zero for tags that never moved
    constant: np.ndarray
    lags: np.ndarray  # (p, n, n) of the tags that move
    cov: np.ndarray  # of what it leaves
    repeats: np.ndarray  # longest run of one value of each tag

    @classmethod
    def learn(cls, Y, starts):
        """Model of nominal rows, (n_samples, n_tags); NaN where missing."""
        mean, scale = np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
        seen = (~np.isnan(Y)).sum(axis=0) > 1
        mean[seen], scale[seen] = np.nanmean(Y[:, seen], axis=0), np.nanstd(Y[:, seen], axis=0)
        scale[scale <= 1e-12 * np.abs(mean)] = 0.0
        moves = scale > 0
        X = (Y[:, moves] - mean[moves]) / scale[moves]
        p = _LAGS if len(Y) >= TUNING.blame_rows_per_column * (1 + _LAGS * X.shape[1]) else 1
        Z, rows = _with_past(X, starts, p)
        if len(rows) < 2 * Z.shape[1]:  # hardly a row has all tags: those missing stand at their mean
            X = np.nan_to_num(X)
            Z, rows = _with_past(X, starts, p)
        gram = Z[rows].T @ Z[rows] / max(len(rows), 1) + _RIDGE * np.eye(Z.shape[1])
        B = np.linalg.solve(gram, Z[rows].T @ X[rows] / max(len(rows), 1))
        rest = X[rows] - Z[rows] @ B
        n = X.shape[1]
        cov = rest.T @ rest / max(len(rows), 1) + _RIDGE * np.eye(n)
        lags = B[1:].reshape(p, n, n).transpose(0, 2, 1)
        return cls(mean, scale, B[0], lags, cov, np.array([_longest_run(y) for y in Y.T]))

    @cached_property
    def _moves(self):
        return np.flatnonzero(self.scale > 0)

    @cached_property
    def _readers(self):
        """For each tag those that follow it alone: their rest of a row hangs on no other tag."""
        S = self.cov
        given_all = 1 / np.diag(np.linalg.inv(S))
        alone = np.diag(S)[None] - S**2 / np.diag(S)[:, None]  # [tag, reader]
        follow = (alone <= TUNING.blame_follows * given_all) & (alone <= TUNING.blame_least_tie * np.diag(S))
        np.fill_diagonal(follow, False)
        return [np.flatnonzero(row) for row in follow]

    def blame(self, Y, start, stop):
        """A :class:`Blame` for rows from `start` to `stop` of the one episode in Y."""
        start, stop = self._window(start, stop)
        E = self._rests(self._filled(Y[:stop], start), start, stop)
        S, moves = self.cov, self._moves
        whole = _unusual(E, S)
        left = np.array([min(self._left(E, j)) for j in range(len(moves))])
        explained = np.zeros(len(self.scale))
        explained[moves] = 1 - left / max(whole, 1e-9)
        why = [self._words(Y[start:stop, k], k) for k in range(len(self.scale))]
        sure = np.array([bool(words) for words in why])
        if sure.all():  # a unit that is held as a whole says nothing of a tag
            why, sure = ["repeats its value, as all tags of the unit do"] * len(why), ~sure
        order = np.lexsort((-explained, ~sure))
        return Blame(order, np.clip(explained, 0.0, 1.0), tuple(why))

    def expected(self, Y, tag, start, stop):
        """What a tag is expected to show in rows, and the standard deviation of that; NaN for one that never moved.

        From the unit's other tags alone: as they would have it, or as it would have followed them.
        """
        found = np.full((2, stop - start), np.nan)
        if not self.scale[tag]:
            return found
        first, stop = self._window(start, stop)
        X, j = self._filled(Y[:stop], first), int(np.flatnonzero(self._moves == tag)[0])
        E = self._rests(X, first, stop)
        follows, wrong = self._left(E, j)
        if follows < wrong:
            mean, std = self._run(X, j, first, stop)
        else:
            values, std = _wrong_values(E, self.lags, self.cov, j, self._not_reading(j))[1:]
            mean = X[first:stop, j] - values
        found[:, first - start :] = self.mean[tag] + self.scale[tag] * mean, self.scale[tag] * std
        return found

    def _window(self, start, stop):
        """Rows that have a past, one at least."""
        start = max(start, len(self.lags))
        return start, max(stop, start + 1)

    def _words(self, y, tag):
        """Why a tag is to blame whatever the model says, empty where it is not."""
        y = y[~np.isnan(y)]
        if not self.scale[tag]:
            return "never moved before" if len(y) and (np.abs(y - self.mean[tag]) > 1e-9).any() else ""
        run = _longest_run(y)
        long = run > max(TUNING.blame_repeats, TUNING.blame_longer * self.repeats[tag]) and run > 0.5 * len(y)
        return f"repeats one value for {run} rows" if long else ""

    def _filled(self, Y, start):
        """Scaled tags that move; missing values in all that rows from `start` hang on are as the model expects them."""
        X = (Y[:, self._moves] - self.mean[self._moves]) / self.scale[self._moves]
        gaps, p = np.isnan(X).any(axis=1), len(self.lags)
        first = max(start - p, 0)
        while gaps[max(first - p, 0) : first + 1].any() and first > 0:
            first -= 1
        for t in first + np.flatnonzero(gaps[first:]):
            missing = np.isnan(X[t])
            mean = self.constant + sum(A @ X[t - k] for k, A in enumerate(self.lags, 1) if t >= k)
            there = ~missing
            gain = self.cov[np.ix_(missing, there)] @ np.linalg.inv(self.cov[np.ix_(there, there)])
            X[t, missing] = mean[missing] + gain @ (X[t, there] - mean[there])
        return X

    def _rests(self, X, start, stop):
        """What the autoregression leaves of rows."""
        predicted = self.constant + sum(X[start - k : stop - k] @ A.T for k, A in enumerate(self.lags, 1))
        return X[start:stop] - predicted

    def _not_reading(self, j):
        return np.setdiff1d(np.arange(len(self.cov)), self._readers[j])

    def _left(self, E, j):
        """What is unusual without tag j: if it moves and others follow, and if its values are wrong, read or not."""
        S, others = self.cov, np.delete(np.arange(len(self.cov)), j)
        follows = _unusual(E[:, others], S[np.ix_(others, others)])
        keep, read = self._not_reading(j), self._readers[j]
        wrong = max(_wrong_values(E, self.lags, S, j, keep)[0] - len(E) * (len(keep) - 1), 0.0)
        if len(read):  # what controllers read they follow, right or wrong
            gain = np.linalg.solve(S[np.ix_(keep, keep)], S[np.ix_(keep, read)])
            own = S[np.ix_(read, read)] - S[np.ix_(read, keep)] @ gain
            wrong += _unusual(E[:, read] - E[:, keep] @ gain, own)
        return follows, wrong

    def _run(self, X, j, start, stop):
        """Tag j as it would have followed the others from the first row on, and the standard deviation."""
        precision = np.linalg.inv(self.cov)
        others = np.delete(np.arange(len(self.cov)), j)
        weights, noise = -precision[j, others] / precision[j, j], 1 / precision[j, j]
        run, spread = X[:stop].copy(), np.zeros(stop)
        for t in range(max(start, len(self.lags)), stop):
            mean = self.constant + sum(A @ run[t - k] for k, A in enumerate(self.lags, 1))
            run[t, j] = mean[j] + weights @ (X[t, others] - mean[others])
            gains = [A[j, j] - weights @ A[others, j] for A in self.lags]
            # errors of successive rows go the same way: standard deviations add up
            carried = sum(gain * spread[t - k] for k, gain in enumerate(gains, 1))
            spread[t] = np.sqrt(noise + carried**2)
        return run[start:stop, j], np.maximum(spread[start:stop], np.sqrt(noise))


def _unusual(E, S):
    """How far rows are from normal ones of a covariance: twice the log-likelihood that another one gains.

    Rows that move too little count as those that move too much, which sums of squares would take for usual: a tag
    that hardly moves leaves less of them than there is in nominal operation.

    E is (n_rows, d), S (d, d).
    """
    n, d = E.shape
    if not d:
        return 0.0
    white = solve_triangular(cholesky(S, lower=True), E.T, lower=True)
    sizes = np.linalg.eigvalsh(white @ white.T)
    sizes = (sizes + d) / (n + d)  # in few rows the usual one counts as much as d of them
    return float(n * (sizes - 1 - np.log(sizes)).sum())


def _wrong_values(E, lags, S, j, keep):
    """What is unusual of the tags `keep` at best if tag j shows wrong values, these, and their standard deviations.

    A wrong value is in its own row and, less what the autoregression makes of it, in those after it: least
    squares with as many unknowns as rows.

    E is (n_rows, n), `lags` (p, n, n), S (n, n); a number, (n_rows,) and (n_rows,) come back.
    """
    n_rows, p = len(E), len(lags)
    inverse = np.linalg.inv(S[np.ix_(keep, keep)])
    kept = E[:, keep]
    shapes = np.array([np.eye(len(S))[j][keep], *(-A[keep, j] for A in lags)])
    products = shapes @ inverse @ shapes.T
    band, right = np.zeros((p + 1, n_rows)), np.zeros(n_rows)
    weighed = kept @ inverse
    for k in range(min(p, n_rows - 1) + 1):
        right[: n_rows - k] += weighed[k:] @ shapes[k]
        for later in range(k, p + 1):
            n = n_rows - later
            if n > 0:
                band[p - k, k : k + n] += products[later, later - k]
    band[p] += 1e-9 * max(products[0, 0], 1e-9)
    factor = cholesky_banded(band), False
    wrong = cho_solve_banded(factor, right)
    variance = 1 / np.maximum(band[p], 1e-12) if n_rows > 2000 else np.diag(cho_solve_banded(factor, np.eye(n_rows)))
    return float((weighed * kept).sum() - right @ wrong), wrong, np.sqrt(variance)


def _with_past(X, starts, p):
    """A constant and the p rows before each, (n_samples, 1 + p d), and the rows that are there with all of these."""
    there = ~np.isnan(X).any(axis=1) & (complete_before(X, starts) >= p)
    return np.hstack([np.ones((len(X), 1)), lagged_rows(X, p, starts)]), np.flatnonzero(there)


def _longest_run(y):
    """Length of the longest run of one value."""
    y = y[~np.isnan(y)]
    if not len(y):
        return 0
    bounds = np.flatnonzero(np.diff(y) != 0) + 1
    return int(np.diff([0, *bounds, len(y)]).max())


def trend_of(model, Y, tag, start, stop, index, name):
    """A tag around some rows as measured and as the unit's others expect it, with a band of two deviations.

    `index` is that of all rows in Y.
    """
    begin, end = max(start - TUNING.blame_before, 0), min(stop + TUNING.blame_before // 2, len(Y))
    expected, std = model.expected(Y, tag, begin, end)
    columns = {"measured": Y[begin:end, tag], "expected": expected, "low": expected - 2 * std}
    return pd.DataFrame(columns | {"high": expected + 2 * std}, index=index[begin:end]).rename_axis(index=name)


def tag_names(layout, unit):
    """Names of the columns that a unit measures, of the layout of its plant."""
    return [str(column) for column in layout.outputs[layout.names.index(unit)]]


def rows_at_home(plant, unit, client, rows):
    """A unit's rows of an episode (slice) of the record that it was asked about, less what its own model removes."""
    own = None if plant.index is None else plant.index[rows]
    return off_baseline(client, plant.outputs[plant.names.index(unit)][rows], own, (0,))[0]


# What a watched unit learns of nominal rows, and what it answers about batches, flags and incidents.
#
# Its record comes batch by batch, and a `Place` says where the unit stands between two of them.
#
# Units of nothing but status bits are watched with a little noise on their values, so that models of normal noise bear
# them. A column that is constant in nominal operation, or has two values, has no noise that says how unusual a change
# is, and copies of it determine each other. Dither, noise of known size that is added before a signal of few values is
# processed, gives it one (Widrow & Kollar 2008, Quantization noise). A flip is then as many standard deviations as the
# dither is smaller than a step. Rows that are watched get half of the noise that the model was learned with: what is
# added by us has no news, and its large values would be false alarms, the same ones in every record.


def learn_watched(unit, first):
    """The unit off its baseline, its client as it is watched, and its first state with all it knows of nominal rows."""
    template = unit.client
    if isinstance(template, KalmanClient) and template.profile == "auto":  # a fault's own period would go with it
        template = clone(template).set_params(baseline__profile="calendar")
    unit = replace(unit, client=template, least_shift=TUNING.watching_least_shift)
    client = dithered_client(unit)
    client = unit.fitted() if client is None else client
    unit = unit.off_baseline({"client": client})
    if not unit.monitor:
        raise PacketError(f"Unit {unit.name!r} is not to be monitored: its settings do not say `watch = true`.")

    def resized(n_states):
        return unit.fitted(clone(unit.client).set_params(n_states=n_states))

    client, monitor = monitored(client, unit.outputs, unit.starts, resized)
    first = {**first, "monitor": monitor, "tags": TagModel.learn(unit.outputs, unit.starts)}
    if unit.noise is None:  # which leaves no value as it was
        known = () if getattr(client, "baseline_", None) is None else client.baseline_.known
        first["habits"] = Habits.learn(unit.with_baseline, unit.starts, known)
    return unit, client, first


@handles(FlagsRequest)
def flag(unit, request, state, round):
    """Learn what is nominal for the flags, or raise them."""
    if request.percentile is not None:
        own, Y = (state, unit.outputs) if unit.home is None else (worker.own_record(state), unit.home)
        return Acknowledgement(), {**state, "flags": worker.learned_flags(own, Y, unit.starts, request.percentile)}
    if "flags" not in state:
        raise PacketError(f"Unit {unit.name!r} was asked for flags before it learned what is nominal.")
    flags = worker.flags_of(state, unit.outputs, unit.starts) if unit.flags is None else unit.flags
    return FlagMessage(flags), state


@handles(WatchRequest)
def describe_batch(unit, wishes, state, round):
    """Message of the fitted model about the next batch of the record that is to be monitored."""
    if unit.monitored is None:
        raise PacketError(f"Unit {unit.name!r} has no record to be monitored.")
    try:
        message, place = next_message(unit.name, state, unit.monitored, wishes.batch, flags=wishes.flags)
    except ValueError as error:
        raise PacketError(f"Unit {unit.name!r} cannot answer about a batch. {error}") from error
    if message is None:
        return requests.NothingYet(), state
    if wishes.fits:
        batch = unit.monitored.batch(wishes.batch)
        about = replace(unit, outputs=batch.outputs, starts=batch.starts, index=batch.index, inputs=None, measured=None)
        message = with_fit(about.off_baseline(state), message, state)
    return message, {**state, "place": place, "record": place.record}


@handles(VerdictReply)
def note_verdict(unit, verdict, state, round):
    """Take note of incidents."""
    return Acknowledgement(), {**state, "verdict": verdict}


def is_status(Y):
    """Whether no column of a record, (n_samples, n_columns), has more than two values."""
    for rows in (Y[: TUNING.watching_looked_at], Y):
        if any(len(np.unique(y[~np.isnan(y)])) > TUNING.watching_few_values for y in rows.T):
            return False
    return np.count_nonzero(~np.isnan(Y).all(axis=1)) > TUNING.watching_fewest


@dataclass(frozen=True)
class Dither:
    """What is taken off the record of a unit of status bits: noise drawn from the number of the row.

    `key` seeds it, `spread` is its standard deviation by column in rows that models are learned from.
    """

    key: int
    spread: np.ndarray
    is_watched: bool = False
    known = ()  # columns that tell what is taken off

    @classmethod
    def learn(cls, name, Y):
        """Dither of a tenth of each column's step, or of its size where it never moved."""
        low, high = np.nanmin(Y, axis=0, initial=np.inf), np.nanmax(Y, axis=0, initial=-np.inf)
        size = np.where(np.isfinite(low), np.abs(low), 1.0)
        step = np.where(high > low, high - low, np.where(size > 0, size, 1.0))
        digest = hashlib.sha256(name.encode()).digest()
        return cls(int.from_bytes(digest[:16], "big"), TUNING.watching_share * step)

    @property
    def watched(self):
        """What is taken off rows that the model was not learned from."""
        return replace(self, is_watched=True)

    def of(self, Y, index=None, starts=(0,), after=None):
        """What is taken off rows that follow row number `after`, and the number of the last one."""
        first, d = 0 if after is None else int(after) + 1, len(self.spread)
        source = np.random.Philox(key=self.key)
        source.advance((first * d) // 4)  # of four numbers each
        raw = source.random_raw(len(Y) * d + first * d % 4)[first * d % 4 :]
        uniform = ((raw >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
        spread = TUNING.watching_watched * self.spread if self.is_watched else self.spread
        return spread * ndtri(uniform).reshape(len(Y), d), first + len(Y) - 1


def dithered_client(unit):
    """Model of a unit of status bits, None where the unit is none."""
    template, Y = unit.client, unit.with_baseline
    if not isinstance(template, KalmanClient) or unit.noise is not None or template.C is not None or not is_status(Y):
        return None
    asked = group_of(template, "baseline").taken_off() | {"profile": None}
    if any(wanted is not None for wanted in asked.values()):
        return None
    dither = Dither.learn(unit.name, Y)
    states = min(Y.shape[1], TUNING.watching_most_states) if template.n_states == "auto" else template.n_states
    client = unit.fitted(clone(template).set_params(n_states=states), outputs=Y - dither.of(Y)[0])
    client.baseline_ = dither
    return client


@dataclass(slots=True)
class Batch:
    """Rows of a monitored record."""

    outputs: np.ndarray
    starts: tuple = (0,)
    fingerprint: str = ""
    index: pd.Index | None = None
    inputs: np.ndarray | None = None


class Feed:
    """Batches that come one after the other; only the last one is kept."""

    def __init__(self):
        self.number, self._last = 0, None

    def __getstate__(self):
        return {"number": self.number, "_last": None}  # rows stay where they came

    def put(self, batch):
        """Take the next batch."""
        self.number, self._last = self.number + 1, batch

    @property
    def is_short(self):
        """Whether the last batch has few rows."""
        return self._last is not None and len(self._last.outputs) < TUNING.watching_few_rows

    def batch(self, number):
        """Batch of a number from 1, None where there is none yet."""
        return self._last if number == self.number else None


class Place(NamedTuple):
    """Where a unit stands in its monitored record."""

    number: int = 0
    known: object = None
    record: str = ""
    passed: Passed | None = None
    before: Any = None
    row: float | None = None  # number of the last one, where seasons need it


def next_message(name, state, monitored, number, *, flags=False):
    """Message about the next batch, or about the last one again, and where the unit stands after it."""
    place = state.get("place") or Place()
    if number == place.number and place.before is not None:
        place = place.before
    if type(number) is not int or number != place.number + 1:
        raise ValueError(f"Batch {number!r} was asked for, and {place.number + 1} is the next one.")
    batch = monitored.batch(number)
    if batch is None:
        return None, place
    Y, silence, passed = batch.outputs, state.get("silence"), None
    if silence is not None:
        Y, passed = silence.masked(name, Y, batch.starts, batch.index, place.passed)
    baseline: Any = getattr(state["client"], "baseline_", None)
    measured = Y = baseline.in_known_modes(Y) if getattr(baseline, "known", ()) else Y
    Y, row = worker.off_baseline(state["client"], measured, batch.index, batch.starts, place.row)
    if flags:
        before: Any = Y[:0] if place.known is None else place.known
        joined, starts = np.concatenate([before, Y]), (start + len(before) for start in batch.starts if start > 0)
        message = FlagMessage(worker.flags_of(state, joined, (0, *starts))[len(before) :])
        known = joined[-TUNING.watching_remembered :]  # rows that the filter goes on from
    else:
        message, known = worker.stream_message(state, Y, batch.starts, place.known, measured)
        message = message.with_inputs(batch.inputs)
    if len(batch.outputs) >= TUNING.watching_few_rows:  # a few rows hold no page worth the look
        release_pages(batch.outputs)
    record = place.record
    if batch.fingerprint or record:  # rows that came as a file
        record = hashlib.sha256(f"{record} {batch.fingerprint}".encode()).hexdigest()
    before = Place(place.number, place.known, place.record, place.passed, None, place.row)
    return message, Place(number, known, record, passed, before, row)
