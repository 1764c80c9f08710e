"""Units that went silent: all their tags repeat the last values for longer than they ever did."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd

from ..containers.episodes import episode_starts
from .mapped import release_pages

_ALWAYS_ALLOWED = 10  # rows that may repeat in any case
_MARGIN = 3  # times the longest repetition of `fit`
_HEAD = 1000  # rows that most columns move in


def repeated_rows(Y, starts=(0,), before=None, columns=None):
    """How many rows back each row has been the same.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_columns)
        NaN where missing. A row without values repeats nothing.
    starts : sequence of int
        First row of each episode.
    before : tuple (ndarray of shape (n_columns,), int), default=None
        Row before the first one (its `columns`) and its count, where Y continues a stream.
    columns : sequence of int, default=None
        Columns that count, fastest with the liveliest first; None takes all.

    Returns
    -------
    ndarray of int of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.client.silence import repeated_rows
    >>> repeated_rows(np.array([[1.0, 5.0], [2.0, 5.0], [2.0, 5.0], [2.0, 5.0], [3.0, 5.0]])).tolist()
    [0, 0, 1, 2, 0]
    """
    columns = range(Y.shape[1]) if columns is None else columns
    if before is None and len(columns) and _always_changes(Y[:, columns[0]]):
        return np.zeros(len(Y), dtype=int)
    same = _same_as_before(Y, columns)
    if before is not None and len(Y):
        row, first = before[0], Y[0, columns]
        known = ~np.isnan(first)
        same[0] = known.any() and np.array_equal(row, first, equal_nan=True)
    same[[start for start in starts if start > 0 or before is None]] = False
    if not same.any():
        return np.zeros(len(Y), dtype=int)
    steps = np.arange(len(Y))
    last_change = np.maximum.accumulate(np.where(same, -1, steps))
    count = 0 if before is None else before[1]
    return np.where(last_change < 0, count + 1 + steps, steps - last_change)


def _always_changes(y):
    """Whether no value is missing and every one differs from the one before."""
    y = np.ascontiguousarray(y)  # one pass over rows that lie apart
    now, then = y[1:], y[:-1]
    return bool(((now > then) | (now < then)).all())


def _same_as_before(Y, columns):
    """Which rows have values, and the same as the row before; the first has none before it."""
    same = np.zeros(len(Y), dtype=bool)
    rows = None
    for column in columns:  # each looks only at the rows that those before it leave
        if rows is None:
            series = np.ascontiguousarray(Y[:, column])
            now, then = series[1:], series[:-1]
        else:
            now, then = Y[rows, column], Y[rows - 1, column]
        kept = np.flatnonzero((now == then) | (np.isnan(now) & np.isnan(then)))
        rows = kept + 1 if rows is None else rows[kept]
        if not len(rows):
            return same
    same[rows[~np.isnan(Y[np.ix_(rows, columns)]).all(axis=1)]] = True
    return same


class SilenceWatch:
    """Which rows of a record are repetitions of a unit that reports no more.

    A unit counts as silent once all its moving tags, two at least, have repeated their values three times as
    long as ever in the record of `fit`, and for ten rows at least. Whether a row counts depends on the rows
    before it only, so a stream and a record are treated alike.

    Parameters
    ----------
    data : PlantData
        The record of `fit`.
    """

    def __init__(self, data):
        self._moving, self._allowed = {}, {}
        for name, Y in zip(data.names, data.outputs, strict=True):
            moving = _moving_columns(Y)
            if len(moving) >= 2:
                head = Y[:_HEAD, moving]
                liveliest_first = np.argsort((np.diff(head, axis=0) == 0).sum(axis=0), kind="stable")
                self._moving[name] = moving[liveliest_first]
                longest = int(repeated_rows(Y, data.starts, columns=self._moving[name]).max())
                self._allowed[name] = max(_ALWAYS_ALLOWED, _MARGIN * longest)
            release_pages(Y)

    def without_silent(self, data, stream=None):
        """The record with repetitions of silent units as missing, and a warning that names them.

        Parameters
        ----------
        data : PlantData
        stream : dict, default=None
            What :meth:`without_silent` keeps between the batches of a stream; changed in place.

        Returns
        -------
        PlantData
        """
        outputs, starts = {}, data.starts
        passed = 0 if stream is None else stream.get(None, 0)  # rows of the stream before these
        for m, (name, Y) in enumerate(zip(data.names, data.outputs, strict=True)):
            if name not in self._moving:
                continue
            moving = self._moving[name]
            count = repeated_rows(Y, starts, None if stream is None else stream.get(name), moving)
            if stream is not None:
                stream[name] = Y[-1, moving], int(count[-1])
            if count.max() > self._allowed[name]:
                silent = count > self._allowed[name]
                outputs[m] = np.where(silent[:, None], np.nan, Y)
                noticed = np.flatnonzero(count == self._allowed[name] + 1)
                if len(noticed):
                    _warn(name, noticed[0], silent, count, data, passed)
        if stream is not None:
            stream[None] = passed + data.n_samples
        if not outputs:
            return data
        return replace(data, outputs=tuple(outputs.get(m, Y) for m, Y in enumerate(data.outputs)))


def _moving_columns(Y):
    """Columns with two values at least, in their order."""
    moving, rest = np.zeros(Y.shape[1], dtype=bool), np.arange(Y.shape[1])
    for part in (Y[:_HEAD], Y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # columns that were never seen
            moving[rest] = np.nanmax(part[:, rest], axis=0) > np.nanmin(part[:, rest], axis=0)
        rest = np.flatnonzero(~moving)
        if not len(rest):
            break
    return np.flatnonzero(moving)


def _warn(name, first, silent, count, data, passed):
    first = int(first)
    begin = first - int(count[first])
    end = first + int(np.argmin(np.append(silent[first:], False)))
    stop = next((start for start in [*episode_starts(data.lengths)[1:], len(silent)] if start >= end), end)
    until = "" if end == stop else f" until {_when(data.index, end, passed)}"
    warnings.warn(
        f"{name} is silent since {_when(data.index, begin, passed)}{until}; treated as missing, certainty "
        "lowered. All its tags repeat their values, for longer than they ever did in `fit`.",
        UserWarning,
        stacklevel=4,
    )


def _when(index, row, passed):
    if not isinstance(index, pd.DatetimeIndex) or row < 0:
        return f"row {row + passed}"
    return f"{index[row]:%H:%M}" if index[row].date() == index[-1].date() else f"{index[row]:%Y-%m-%d %H:%M}"
