"""A watched plant whose rows come in batches."""

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..client.messages import stream_message
from ..containers.sampling import StreamTimes, check_following
from ..privacy.mechanism import NoisedStream
from ..server.watching.flag_incidents import FlagState
from ..server.watching.incidents import incident_row, incident_table
from ..server.watching.root_cause import StreamState
from ._privacy import mechanisms

_REMEMBERED = 300  # rows whose times are kept, and which a unit filters on from where it sends flags only


class FollowedStream:
    """What a detector keeps of a stream: where it stands, nothing of the rows before the last."""

    def reset(self):
        """Forget the stream followed so far; the next :meth:`update` starts an episode."""
        self._stream, self._resolutions, self._noised = StreamState(), {}, None
        self._flag_stream, self._times = FlagState(), StreamTimes(_REMEMBERED)
        self._last_rows, self._last_time = {}, None

    def update(self, batch):
        """Follow a stream: the next rows of all units.

        Parameters
        ----------
        batch : list, dict, DataFrame or ndarray
            In the containers and columns of `fit`; one row or more.

        Returns
        -------
        DataFrame
            Incidents that are new or revised, as in :meth:`incidents`, positions counted from the first row
            of the stream, times where all batches have them. An incident is the same one as long as its
            ``detected`` is.

        Raises
        ------
        ValueError
            If rows do not follow those before, or flags are randomised.
        """
        check_is_fitted(self)
        if mechanisms(self.privacy)[1] is not None:
            raise ValueError(
                "A stream of randomised flags is not offered: ask flags, incidents or predict_root_cause "
                "about whole records."
            )
        data = self._read(batch, stream=self._last_rows)
        self._last_time = check_following(data.index, self._last_time, self._period)
        follow = self._next_flags if self.evidence == "flags" else self._next_states
        changed = follow(data.names, self._next_rows(data))
        if changed:
            self.stream_ledger_.count_verdict(len(changed), self.client_names_)
        return incident_table(self._told(changed, data.index))

    def _told(self, changed, index):
        """Rows of the table of incidents, places as times if all rows so far had them."""
        if not isinstance(index, pd.DatetimeIndex):
            self._times = None
        if self._times is None:
            return [incident_row(v, self.client_names_) for v in changed]
        self._times.extend(index)
        table = [incident_row(v, self.client_names_, index=self._times) for v in changed]
        self._times.keep([row for v in changed if v.open for row in (v.start, v.detected)])
        return table

    def _next_states(self, names, outputs):
        """What the server makes of the units' messages about their next rows."""
        messages = {}
        for name, Y in zip(names, outputs, strict=True):
            client = self._site(name)["client"]
            known = self._resolutions.get(name)
            messages[name], self._resolutions[name] = stream_message(client, Y, (0,), known)
        self.stream_ledger_.count_states(messages)
        return self._root_cause.push(messages, self._stream)

    def _next_flags(self, names, outputs):
        """What the server makes of two bits per unit and row; units keep what their filters remember."""
        pairs = {}
        for name, Y in zip(names, outputs, strict=True):
            before = self._resolutions.get(name, Y[:0])
            known = np.concatenate([before, Y])
            pairs[name] = self._flags_at_home(name, known, (0,))[len(before) :]
            self._resolutions[name] = known[-_REMEMBERED:]
        self.stream_ledger_.count_flags(pairs)
        flags = np.stack([pairs[name] for name in names], axis=1).astype(np.uint8)
        return self._flag_watch.push(flags, self._flag_stream)

    def __getstate__(self):
        """Without the noise of a stream, which belongs to the mechanism: a copy starts another one."""
        return {**super().__getstate__(), "_noised": None}

    def _next_rows(self, data):
        """The next rows of a stream as everything outside the units sees them."""
        if self.privacy is None and not self.noise_covariance_:
            return data.outputs
        if self._noised is None:
            self._check_states_may_leave()
            self._noised = NoisedStream(self._checked_mechanism(), self._noise)
        drawn, charged = self._noised.release(dict(zip(data.names, data.outputs, strict=True)))
        if charged:
            self._store_promise(data.n_samples)
        return tuple(drawn[name] for name in data.names)
