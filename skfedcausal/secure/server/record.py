"""What the server knows of a record of which it only has sums: lag covariances, and no rows."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from ...server.joint import JointRecord, Scores
from ...statespace.episodes import TransitionMoments, episode_lengths, episodes, lag_covariances
from ...statespace.held_out import N_LAGS
from ...statespace.matrices import without_last_bits
from ...statespace.observation import Information
from ...statespace.ring import N_SEGMENTS, Sums, segments
from ..series import are_answered, can_be_graded, effective_rows, faded_scores, graded_series

_LEVEL = 0.01  # family-wise, of news that follow what came before


class SummedScores(Scores):
    """Lag covariances of faded scores: all that likelihoods of complete records need of them.

    Rows are not there, so there are no more lags than came, and nothing is known of single rows.
    """

    def __init__(self, record, sums):
        self._record, self.present, self.known = record, None, np.zeros((record.n_samples, 0))
        noise = [np.linalg.inv(part.patterns[0]) for part in record.parts]
        self.noise = [without_last_bits(N, np.sqrt(np.diag(N))) for N in noise]
        lengths = [stop - start for start, stop in episodes(record.starts, record.n_samples)]
        weight, self.n_effective = effective_rows(lengths)
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
        return replace(moments, n_transitions=self.n_effective - len(record.starts))


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


class RecordSums(NamedTuple):
    """All that the server learns of a record: what units say of their sensors, and sums of products."""

    informations: dict[str, np.ndarray]  # (p, p) by unit
    starts: tuple[int, ...]  # first rows of episodes
    n_samples: int
    products: np.ndarray  # (n_lags + 2, n, n)
    graded: np.ndarray | None = None  # those in segments, (2, n_segments, n_lags + 1, n, n)

    def record(self):
        """A new record that knows the sums."""
        return SummedRecord.of(self.informations, self.starts, self.n_samples, self.products)


def open_sums(messages, lags):
    """:class:`RecordSums` that units would have answered with masks, computed from messages that hold rows."""
    record = JointRecord.from_messages(messages)
    if not record.is_constant or record.u is not None:
        raise ValueError("Sums of products suffice for complete records without inputs only; use a LikelihoodServer.")
    series = [faded_scores(part.z, part.patterns[0], record.starts) for part in record.parts]
    sums = lag_covariances(np.concatenate(series, axis=1), range(lags + 1), record.starts)
    informations = {name: part.patterns[0] for name, part in zip(record.names, record.parts, strict=True)}
    return RecordSums(informations, record.starts, record.n_samples, sums, _open_segments(record, lags))


def _open_segments(record, lags):
    """Sums that grades rest on, (2, n_segments, n_lags + 1, n, n), None where units would not tell them."""
    n, starts, n_states = record.n_samples, record.starts, record.partition.n_states
    requested = Sums(lags, tuple(episode_lengths(starts, n)), graded=True)
    if not (can_be_graded(n) and are_answered(requested, [part.z.shape[1] for part in record.parts])):
        return None
    series = np.hstack([graded_series(part.z, part.patterns[0], starts) for part in record.parts])
    found = [lag_covariances(series[rows.start - n : rows.stop - n], range(N_LAGS + 1)) for rows in segments(n)]
    return np.reshape(found, (2, N_SEGMENTS, N_LAGS + 1, n_states, n_states))


def news_that_follows(record, A):
    """Units whose news go together with what came two rows or more before, by name, tested at a family-wise level.

    Of a plant of one lag, whatever its sensor noise, ``x[t] - A x[t-1]`` of scores is a moving average of one row. Each
    covariance with an earlier one is then normal around zero with the variance that Bartlett gives [1]_, and the
    largest of them all is judged by Bonferroni's inequality.

    References
    ----------
    .. [1] Brockwell, Davis (1991), Time Series: Theory and Methods, section 11.2.
    """
    sums, n = record.scores.sums / record.n_samples, record.scores.n_effective
    at = dict(enumerate(sums)) | {-lag: S.T for lag, S in enumerate(sums)}
    news = np.array([at[k] - at[k + 1] @ A.T - A @ at[k - 1] + A @ at[k] @ A.T for k in range(len(sums) - 1)])
    now, after = (np.diagonal(news[k]) for k in (0, 1))
    std = np.sqrt((np.outer(now, now) + 2 * np.outer(after, after)) / n)
    largest = np.abs(news[2:] / std).max(axis=(0, 2), initial=0.0)  # of each effect
    limit = norm.isf(_LEVEL / (2 * max(len(news) - 2, 1) * std.size))
    return [name for name, own in zip(record.names, record.partition.slices, strict=True) if largest[own].max() > limit]


def withheld(links, units):
    """Links with no verdict of the likelihood on units of which the plant does not hold."""
    at = links["effect"].isin(units)
    because = links["effect"].map("what {} does beyond the plant still follows what came before".format)
    judged = links.assign(verdict=links["verdict"].mask(at, "cannot tell"))
    return judged.assign(because=judged["because"].mask(at & judged["because"].eq(""), because))
