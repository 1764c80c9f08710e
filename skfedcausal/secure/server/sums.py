"""The plant from secure sums: lag covariances, links, intervals and spectra, with no row at the server."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from ...arguments import warn
from ...bases import configured, place_of
from ...message import secure
from ...message.requests import Ask
from ...message.states import StateMessage
from ...server.estimation.standardised import StandardisedPlant
from ...server.joint import JointRecord, Scores
from ...server.likelihood import LikelihoodServer
from ...server.links.grades import fewest_rows, grades_of_sums
from ...server.links.questions import screened
from ...server.plant import ServerLearner
from ...statespace.episodes import TransitionMoments, episode_lengths, episodes, lag_covariances
from ...statespace.held_out import N_LAGS
from ...statespace.lag_products import N_SEGMENTS, Sums, fraction_bits, from_ring, segments
from ...statespace.matrices import Partition, without_last_bits
from ...statespace.observation import Information
from ..protocol import (
    are_answered,
    can_be_graded,
    effective_rows,
    faded_scores,
    graded_series,
    opened_products,
    rows_of_segments,
)

# What the server knows of a record of which it only has sums: lag covariances, and no rows.

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


# The plant from secure sums: links, intervals and spectra, with no row at the server.

_ROUNDING = 1e-9  # of sums in double precision; the numbers that they are of are whole


def requested_sums(series, lags):
    """What is to be summed: grades too where all units sent what they rest on and none would refuse.

    Masked series that do not belong together are refused.
    """
    lengths = {name: message.lengths for name, message in series.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The units' records have different episodes: {lengths}.")
    for name, message in series.items():
        if message.sums.lags != lags:
            raise ValueError(f"Unit {name!r} sent its own sums at {message.sums.lags + 1} lags, expected {lags + 1}.")
    requested = Sums(lags, next(iter(lengths.values())), all(message.sums.graded for message in series.values()))
    sizes = [message.masked.shape[1] for message in series.values()]
    return replace(requested, graded=requested.graded and are_answered(requested, sizes))


def check_products(series, products, sums):
    """Refuse masked products of other units or lags than were asked about."""
    n_states = sum(message.masked.shape[1] for message in series.values())
    for name, reply in products.items():
        own = series[name].masked.shape[1]
        expected = (sums.n_sums, n_states - own, own)
        if reply.behind.shape != expected:
            raise ValueError(f"Unit {name!r} sent masked products of shape {reply.behind.shape}, expected {expected}.")


def others_of(series, sums):
    """Request to every unit with the masked series of all others, as far as they are summed."""
    requests = {}
    for name in series:
        others = {other: message for other, message in series.items() if other != name}
        if not others:
            raise ValueError(f"Sums of products need two units; there is only {name!r}.")
        masked = np.concatenate([message.masked[: sums.n_rows] for message in others.values()], axis=1)
        requests[name] = secure.ProductsRequest(masked, *_sizes_and_tags(others), tuple(others))
    return requests


def corrections_request(series, sums, digests):
    """Request to the dealer about the units that are left; `digests` are those of what each was asked to multiply."""
    asked, graded = np.stack([digests[name] for name in series]), sums.graded or None
    return secure.CorrectionsRequest(*_sizes_and_tags(series), sums.lengths, tuple(series), sums.lags, asked, graded)


def _sizes_and_tags(series) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of states of units, and what their masks depend on."""
    sizes = [message.masked.shape[1] for message in series.values()]
    return np.array(sizes), np.stack([message.tag for message in series.values()])


def opened_sums(series, products, corrections, requested):
    """Sums of products of the series of all units that are left, those of lags in the scale of the scores."""
    left = [name for name in series if name in products]
    messages = [series[name] for name in left]
    slices = Partition([message.masked.shape[1] for message in messages]).slices
    masked = np.concatenate([message.masked[: requested.n_rows] for message in messages], axis=1)
    expected = (requested.n_sums, masked.shape[1], masked.shape[1])
    if corrections.shape != expected:
        raise ValueError(f"The dealer's corrections have shape {corrections.shape}, expected {expected}.")
    found = {}
    for k, name in enumerate(left):
        reply, others = products[name], [other for other in series if other != name]
        places = Partition([series[other].masked.shape[1] for other in others]).slices
        for other, place in zip(others, places, strict=True):
            if other in products:
                found[k, left.index(other)] = reply.behind[:, place], reply.ahead[:, :, place]
    total = opened_products(masked, slices, found, corrections, requested.products)
    _check_opened(total[0], left, slices)
    for message, own in zip(messages, slices, strict=True):
        total[:, own, own] = message.own[: requested.n_sums]
    sums = from_ring(total, fraction_bits(len(messages[0].masked)))
    of_lags, graded = sums[: requested.lags + 1], requested.in_segments(sums) if requested.graded else None
    for part in (of_lags, *([] if graded is None else graded.reshape(-1, *graded.shape[2:]))):
        _check_sums(part / sum(requested.lengths), left, slices)
    scale = np.concatenate([message.scale for message in messages])
    return of_lags * np.outer(scale, scale), graded


def _check_opened(products, names, slices):
    """The products (n, n) of two units in one row are opened twice under different masks, and have to be the same."""
    wrong = np.array([[(products[a, b] != products[b, a].T).any() for b in slices] for a in slices])
    np.fill_diagonal(wrong, False)
    if wrong.any():
        raise ValueError(
            f"The sums of {_most_often(wrong, names)} with others cannot be unmasked: unit and dealer have different "
            "keys, or one of them changed what it sent. Give the dealer the keys that the units have."
        )


def _check_sums(means, names, slices):
    """Sums (k, n, n) of products of real series obey Cauchy and Schwarz, and those in one row are a covariance."""
    squares = np.sqrt(np.diagonal(means[0]))
    beyond = (np.abs(means) > np.outer(squares, squares) * (1 + _ROUNDING)).any(axis=0)
    wrong = np.array([[beyond[a, b].any() or beyond[b, a].any() for b in slices] for a in slices])
    if wrong.any():
        raise ValueError(
            f"The sums of {_most_often(wrong, names)} with others are larger than products of their series can be: "
            "what it sent is not about one series. Leave it out, or ask its site to check."
        )
    if not _is_covariance(means[0]):
        rest = [np.delete(np.arange(len(squares)), np.arange(len(squares))[own]) for own in slices]
        who = [name for name, kept in zip(names, rest, strict=True) if _is_covariance(means[0][np.ix_(kept, kept)])]
        raise ValueError(
            f"The sums of all units are no covariance, but are without {who or 'several'} of them: what was sent is "
            "not about one series each. Leave that out, or ask its site to check."
        )


def _is_covariance(matrix):
    return np.linalg.eigvalsh(matrix)[0] > -_ROUNDING * len(matrix)


def _most_often(wrong, names):
    """Names of the units with most pairs that are wrong, (n_units, n_units)."""
    counts = wrong.sum(axis=0)
    return [name for name, count in zip(names, counts, strict=True) if count == counts.max()]


_ENOUGH = 12  # lags that are looked at in any case
# settings of a LikelihoodServer that need rows, with the values that do not
_WITHOUT_ROWS = {
    "fix_local": False,
    "level_shifts": None,
    "likelihood": "whittle",
    "covariance": "information",
    "held_out": None,
    "n_rounds": 1,
}
_MADE_WHEN_ASKED = (  # by a learner, and kept here
    "links_", "correlations_", "transition_", "process_cov_", "input_", "lag_transitions_", "lag_inputs_",
    "input_at_once_",
)  # fmt: skip


@dataclass(repr=False, eq=False, kw_only=True)
class SecureSumsServer(ServerLearner):
    """Estimate of the plant from sums of products over rows, which units compute under masks.

    The Whittle likelihood of a complete record needs the lag covariances of the units' scores and nothing else.
    Here units send masked series instead of states, a dealer who sees no data tells what the masks add, and
    the server learns the sums alone [1]_ [2]_. Links, their tests and intervals, Geweke's measures and spectra
    are those of a :class:`~skfedcausal.LikelihoodServer` on the same sums; whatever is about rows cannot be had
    (`predict`, `transform`, `score`, counterfactuals, incidents), and units learn nothing of each other.

    Parameters
    ----------
    learner : LikelihoodServer, default=None
        How the plant is learned from the sums; None stands for one that looks for no shifts of levels.
    n_lags : int, default=12
        Lags of the likelihood. More are asked of the units where filters remember more, at the price of more
        sums; a warning says so.
    dealer : str, default="dealer"
        Client of the transport that hands out the masks.

    Attributes
    ----------
    names_ : tuple of str
        Units in the order of the matrices.
    state_slices_ : dict of str to slice
        States of each unit.
    transition_, unshrunk_transition_, process_cov_, links_, correlations_, information_
        See :class:`~skfedcausal.LikelihoodServer`.
    learner_ : LikelihoodServer
        Fitted.
    sums_ : ndarray of shape (n_lags + 2, n, n)
        ``sum_t s[t+l] s[t]'``, the sums of lagged products of the units' faded scores: all that the server
        learned of the record, with `information_`.

    See Also
    --------
    skfedcausal.secure.Dealer : Hands out the masks.
    skfedcausal.secure.SumsWorker : The unit's side.

    Notes
    -----
    Nobody may collude with the dealer: it has the rows together with the server or with one unit. The server
    and all units but one learn at most ``(2 n_lags + 3) P`` linear equations about each series of the one left,
    P the states of the others, beside its own lag covariances. A unit refuses where that is more than half of
    its rows. Sums that grades of links rest on add ``140 P``, and are left out where that is too many. Records of few
    rows, with gaps or with inputs are refused, too.

    Scores are rounded to about 25 binary places for 5,000 rows (``(63 - log2 T) / 2``) and faded in and out over a
    hundredth of an episode at either end, because sums at neighbouring lags of a record that begins at once would
    tell its first and last rows. :meth:`fit` computes the same sums from open messages.

    References
    ----------
    .. [1] Beaver (1997), Commodity-based cryptography, Proceedings of the 29th ACM Symposium on Theory of
           Computing.
    .. [2] Gascon, Schoppmann, Balle, Raykova, Doerner, Zahur, Evans (2017), Privacy-preserving distributed linear
           regression on high-dimensional data, Proceedings on Privacy Enhancing Technologies 2017(4).

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.secure import SecureSumsServer
    >>> X, truth = make_granger_plant(n_units=3, links=[("unit0", "unit2")], random_state=0)
    >>> est = FederatedGrangerEstimator(server=SecureSumsServer()).fit(X)
    >>> est.links_.query("verdict == 'influence'")[["cause", "effect"]].to_string(index=False)
    'cause effect\\nunit0  unit2'
    """

    learner: LikelihoodServer | None = None
    n_lags: int = 12
    dealer: str = "dealer"

    _parameter_constraints = {
        "learner": [LikelihoodServer, None],
        "n_lags": [Interval(Integral, 1, None, closed="left")],
        "dealer": [str],
    }

    tests_links = True
    needs_replies = True
    plant_ = None  # that of the learner

    # -- learning --------------------------------------------------------------------------------

    def dialogue(self, names: Sequence[str], inputs: bool = False) -> Generator[Any, Any, None]:
        """The rounds of a fit: masked series, masked products, and the dealer's corrections.

        A unit that is lost takes its own pairs with it.

        Parameters
        ----------
        names : sequence of str
        inputs : bool, default=False

        Yields
        ------
        Ask

        Raises
        ------
        ValueError
            If the plant has inputs, or units do not fit together.
        """
        self._validate_params()
        learner = self._new_learner()
        if inputs:
            raise ValueError(f"{type(self).__name__} learns plants without inputs; use a LikelihoodServer.")
        lags = self.n_lags + 1
        series = dict(
            (yield Ask(dict.fromkeys(names, secure.SecureSumsRequest(lags, graded=True)), secure.MaskedSeries))
        )
        requested = requested_sums(series, lags)
        requests = others_of(series, requested)
        digests = {name: request.digest for name, request in requests.items()}
        products = dict((yield Ask(requests, secure.MaskedProducts)))
        check_products(series, products, requested)
        left = {name: series[name] for name in series if name in products}
        if len(left) < 2:
            raise ValueError(f"Sums of products need two units; there is {list(left) or 'none'} left.")
        masks = {self.dealer: corrections_request(left, requested, digests)}
        (corrections,) = (yield Ask(masks, secure.MaskCorrections, needed=len(names))).values()
        sums, graded = opened_sums(series, products, corrections.corrections, requested)
        informations = {name: message.information for name, message in left.items()}
        starts = (0, *accumulate(requested.lengths[:-1]))
        self._learn(learner, RecordSums(informations, starts, sum(requested.lengths), sums, graded))

    def fit(self, messages: Mapping[str, StateMessage]) -> Self:
        """Learn the plant from open messages, from the same sums but for rounding.

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        self : SecureSumsServer
        """
        self._validate_params()
        self._learn(self._new_learner(), open_sums(messages, self.n_lags + 1))
        return self

    def _new_learner(self):
        """The learner, which must not need rows."""
        if self.learner is None:
            return configured(LikelihoodServer, {"level_shifts": None, "n_rounds": 1})
        for name, value in _WITHOUT_ROWS.items():
            given = getattr(self.learner, name)
            if given != value and (name, given) != ("n_rounds", "auto"):  # as many as help: nothing is asked again
                raise ValueError(
                    f"learner={self.learner!r} needs rows for {name}={given!r}, and there are only sums; give "
                    f"{place_of(LikelihoodServer, name, repr(value))}."
                )
        return clone(self.learner)

    def _learn(self, learner, sums):
        """Let the learner learn from :class:`RecordSums`, and keep what it found."""
        self.sums_, self._sums = sums.products, RecordSums(*sums[:-1])
        record = sums.record()
        plant = StandardisedPlant(record)
        if not plant.has_clear_scores:
            raise ValueError(
                "A unit's sensors see next to nothing of a state, for which sums over rows do not suffice; give its "
                "KalmanClient fewer states, or use a LikelihoodServer."
            )
        _ = plant.uncoupled
        learner._learn(record)
        record = sums.record()  # the learner has let go of its sums
        news = news_that_follows(record, learner.unshrunk_transition_)
        grades, slices = None, record.partition.slices
        if sums.graded is not None and sums.n_samples >= fewest_rows(slices):
            scale = np.sqrt(np.diagonal(sums.products[0]) / sums.n_samples)
            rows, (whole, rest) = rows_of_segments(sums.n_samples, sums.starts), sums.graded
            grades = grades_of_sums(whole, rest, rows, slices, scale)
        learner._judge_later(None, grades, lambda links: withheld(links, news))
        self.learner_ = learner
        for name in [*(name for name in vars(learner) if name.endswith("_")), *_MADE_WHEN_ASKED]:
            setattr(self, name, getattr(learner, name))
        if plant.n_remembered > max(self.n_lags, _ENOUGH):
            warn(
                f"Filters of these units remember {plant.n_remembered} rows, and sums reach {self.n_lags}: estimates "
                f"are less precise than they could be. Give n_lags={plant.n_remembered} if the sites allow it.",
            )

    # -- what stays ------------------------------------------------------------------------------

    def link_intervals(self, confidence=0.95, *, geweke: bool = False) -> pd.DataFrame:
        """Intervals of the strength of each link between states, and the rows needed to decide it.

        Parameters
        ----------
        confidence : float, default=0.95
            Coverage of each interval.
        geweke : bool, default=False
            Also intervals of Geweke's measure.

        Returns
        -------
        DataFrame
            See :func:`~skfedcausal.inspection.link_intervals`.
        """
        return self.learner_.link_intervals(confidence, geweke=geweke)

    def spectrum(self, cause: str, effect: str, **settings) -> pd.DataFrame:
        """Geweke's measure of the influence of one unit on another over frequency.

        Parameters
        ----------
        cause, effect : str
        **settings
            `conditional`, `n_frequencies`, `confidence`.

        Returns
        -------
        DataFrame
            See :func:`~skfedcausal.inspection.spectrum`.
        """
        return self.learner_.spectrum(cause, effect, **settings)

    def screen(self) -> pd.DataFrame:
        """Test every pair once at the plant without links, from the same sums.

        Returns
        -------
        DataFrame
            With the columns of `links_`; see ``skfedcausal.server.links.questions.screen``.
        """
        return screened(self.learner_, self._sums.record())
