"""A watched plant whose rows come in batches."""

from sklearn.utils.validation import check_is_fitted

from .client.messages import stream_message
from .privacy.stream import NoisedStream
from .server.watching.incidents import incident_row, incident_table
from .server.watching.root_cause import StreamState
from .utils.sampling import check_following


class FollowedStream:
    """What a detector keeps of a stream: where it stands, nothing of the rows before the last."""

    def reset(self):
        """Forget the stream followed so far; the next :meth:`update` starts an episode."""
        self._stream, self._resolutions, self._noised = StreamState(), {}, None
        self._last_rows, self._last_time = {}, None

    def update(self, batch):
        """Follow a stream: the next rows of all units.

        Parameters
        ----------
        batch : list, dict, DataFrame or ndarray
            In the containers and columns of `fit`; any number of rows.

        Returns
        -------
        DataFrame
            Incidents that are new or revised, as in :meth:`incidents`, positions counted from the first row
            of the stream. An incident is the same one as long as its ``detected`` is.
        """
        check_is_fitted(self)
        data = self._read(batch, stream=self._last_rows)
        self._last_time = check_following(data.index, self._last_time, self._period)
        messages = {}
        for name, Y in zip(data.names, self._next_rows(data), strict=True):
            client = self._site(name)["client"]
            known = self._resolutions.get(name)
            messages[name], self._resolutions[name] = stream_message(client, Y, (0,), known)
        self.stream_ledger_.count_states(messages)
        changed = self._root_cause.push(messages, self._stream)
        if changed:
            self.stream_ledger_.count_verdict(len(changed), self.client_names_)
        return incident_table([incident_row(v, self.client_names_) for v in changed])

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
