"""What the server knows of a record of which it only has sums: lag covariances, and no rows."""

from dataclasses import replace

import numpy as np

from ..secure.series import effective_rows, faded_scores
from ..statespace.episodes import TransitionMoments, episodes, lag_covariances
from ..statespace.matrices import without_last_bits
from ..statespace.observation import Information
from .joint import JointRecord, Scores


class SummedScores(Scores):
    """Lag covariances of faded scores: all that likelihoods of complete records need of them.

    Rows are not there, so there are no more lags than came, and nothing is known of single rows.
    """

    def __init__(self, record, sums):
        self._record, self.present, self.known = record, None, np.zeros((record.n_samples, 0))
        noise = [np.linalg.inv(part.patterns[0]) for part in record.parts]
        self.noise = [without_last_bits(N, np.sqrt(np.diag(N))) for N in noise]
        lengths = [stop - start for start, stop in episodes(record.starts, record.n_samples)]
        weight, self._n_effective = effective_rows(lengths)
        self.sums = sums * (record.n_samples / weight)
        self._scale = np.sqrt(np.diag(self.sums[0]) / record.n_samples)

    def moments(self, n_lags):
        """Lag covariances of the transitions, a :class:`TransitionMoments`."""
        record = self._record
        if n_lags + 2 > len(self.sums):
            raise ValueError(f"Sums came for {len(self.sums) - 2} lags, and {n_lags} are needed.")
        ends = np.broadcast_to(0.0, (record.n_samples, record.partition.n_states))  # faded out
        moments = TransitionMoments.from_sums(self.sums[: n_lags + 2], ends, record.starts)
        moments = moments.without_last_bits(self._scale)
        return replace(moments, n_transitions=self._n_effective - len(record.starts))


class SummedRecord(JointRecord):
    """A joint record without series: information matrices of the units, and sums of products of their scores."""

    @classmethod
    def of(cls, informations, starts, n_samples, sums):
        """Record of units by name, of whose faded scores `sums` (n_lags + 2, n, n) are the lagged products."""
        # whoever looks at a row gets NaN
        parts = tuple(Information(np.broadcast_to(np.nan, (n_samples, len(J))), J[None]) for J in informations.values())
        record = cls(tuple(informations), parts, tuple(starts), (None,) * len(parts), (None,) * len(parts))
        record.scores = SummedScores(record, sums)
        return record

    has_rows = tells_lags = False  # sums of a few lags tell no more than one

    @property
    def most_lags(self):
        """Lags that moments can be had for."""
        return len(self.scores.sums) - 2


def open_sums(messages, lags):
    """What units would have sent sums about, computed from messages that hold rows.

    Information matrices by unit, first rows of episodes, number of rows, sums.
    """
    record = JointRecord.from_messages(messages)
    if not record.is_constant or record.u is not None:
        raise ValueError("Sums of products suffice for complete records without inputs only; use a LikelihoodServer.")
    series = [faded_scores(part.z, part.patterns[0], record.starts) for part in record.parts]
    sums = lag_covariances(np.concatenate(series, axis=1), range(lags + 1), record.starts)
    informations = {name: part.patterns[0] for name, part in zip(record.names, record.parts, strict=True)}
    return informations, record.starts, record.n_samples, sums
