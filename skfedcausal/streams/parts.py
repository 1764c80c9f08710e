"""Parts of rows that come one by one, put together by their times."""

import time
from typing import Any

import numpy as np
import pandas as pd


class Parts:
    """Parts of rows by their times; a row is whole when all that is needed has come, or it has waited long enough.

    Parameters
    ----------
    needed : collection of str or None
        Who has a part in every row; None: every part is a whole row.
    patience : float
        Seconds that a row waits for the rest of it.
    held : bool, default=False
        Whether what is missing from a row is as it was in the row before, as of sources that tell changes only.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.streams.parts import Parts
    >>> parts, now = Parts(["mill", "kiln"], 60.0), pd.Timestamp("2026-01-01")
    >>> parts.add(now, {"mill"}, {"mill__power": 1.5})
    >>> parts.ready() is None
    True
    >>> parts.add(now, {"kiln"}, {"kiln__heat": 7.0})
    >>> parts.ready().to_dict("records")
    [{'mill__power': 1.5, 'kiln__heat': 7.0}]
    """

    def __init__(self, needed, patience, held=False):
        self._needed, self._patience = None if needed is None else frozenset(needed), patience
        self._last: dict | None = {} if held else None
        self._names: pd.Index | None = None  # of the columns of the last table
        self._rows: list[list] = []  # as they began: moment, columns, who told them, and when the first came
        self._at: dict[pd.Timestamp, list] = {}  # the last row of each moment

    def __len__(self):
        return len(self._rows)

    def add(self, moment, who, columns):
        """Take in a part of the row of a moment; where that is whole and has the part, another row begins.

        A source whose clock was set back tells moments again.
        """
        row = self._at.get(moment)
        if row is None or (self._last is None and self._is_whole(row[2]) and not row[2].isdisjoint(who)):
            self._at[moment] = row = [moment, {}, frozenset(), time.monotonic()]
            self._rows.append(row)
        row[1], row[2] = row[1] | columns, row[2] | frozenset(who)

    def ready(self, everything=False):
        """Rows that are whole, or have waited long enough, up to the first that is not; None if there are none."""
        now, n_ready = time.monotonic(), 0
        for _, _, who, since in self._rows:
            if not (everything or self._is_whole(who) or now - since >= self._patience):
                break
            n_ready += 1
        if not n_ready:
            return None
        given, self._rows = self._rows[:n_ready], self._rows[n_ready:]
        for row in given:
            if self._at.get(row[0]) is row:
                del self._at[row[0]]
        rows = [row[1] for row in given]
        if self._last is not None:
            for k, row in enumerate(rows):
                self._last = rows[k] = self._last | row
        return self._table(rows, pd.DatetimeIndex([row[0] for row in given]))

    def _is_whole(self, who):
        return self._needed is None or self._needed <= who

    def _table(self, rows, index):
        """Rows as a table; of numbers under the same names it is made sooner."""
        names = list(rows[0])
        if any(list(row) != names for row in rows):
            return pd.DataFrame(rows, index=index)
        if self._names is None or self._names.tolist() != names:
            self._names = pd.Index(names)
        values: Any = [list(row.values()) for row in rows]
        if all(type(value) is float for row in values for value in row):
            values = np.array(values)
        return pd.DataFrame(values, index=index, columns=self._names)
