"""The plant from lagged moments and a fixed number of steps towards maximum likelihood: no search."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.stats import chi2
from sklearn.utils._param_validation import Interval

from ..message.states import StateMessage
from ..statespace.em import block_statistics, expectation_maximisation
from ..statespace.episodes import remove_episode_means
from ..statespace.observation import is_regular
from ..statespace.whittle import moment_start
from .dynamics import PlantFilter
from .estimation.evidence import benjamini_hochberg
from .joint import JointRecord
from .plant import ServerLearner
from .tuning import TUNING
from .watching.thresholds import LEAST_ATTENDED, attended_rows, filled_states, usual_pattern

_LARGE = 200  # states, beyond which plants are learned in blocks


@dataclass(repr=False, eq=False, kw_only=True)
class MomentServer(ServerLearner):
    """Estimate of the plant by errors-in-variables moments and a few steps of expectation maximisation.

    The moments give ``A = G1 (G0 - N)^-1``: G0 and G1 are the covariances at lags 0 and 1 of the scores
    ``s = J^-1 z = h + e``, N the covariance of e that the messages bring. That is consistent but loses much
    where N is nearly as large as G0 in some direction; a fixed number of steps towards maximum likelihood
    repairs it.
    Links that are not significant at the false discovery rate `alpha` are left out by a few more steps, because
    what is estimated of them is mostly error. The cost is known beforehand and small: enough for telling
    whose innovations are out of the ordinary.

    Parameters
    ----------
    n_steps : int, default=20
        Steps of expectation maximisation; 0 gives the moments' closed form. Where single measurements are
        missing the steps take the plant's predictions for them; rows in which a unit is absent are left out,
        and if those are more than four fifths the closed form stays.
    alpha : float, default=0.05
        False discovery rate of the links that are kept.

    Attributes
    ----------
    names_, partition_, state_slices_, transition_, process_cov_, information_
        See :class:`~skfedcausal.LikelihoodServer`.
    support_ : ndarray of bool of shape (n, n) or None
        Elements of `transition_` that were kept; None where no steps were taken.

    See Also
    --------
    skfedcausal.LikelihoodServer : Maximum likelihood, tests of links.

    References
    ----------
    .. [1] Fuller (1987), Measurement error models, Wiley.
    .. [2] Shumway, Stoffer (1982), An approach to time series smoothing and forecasting using the EM
           algorithm, Journal of Time Series Analysis 3(4).

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.server.moments import MomentServer
    >>> X, _ = make_granger_plant(n_units=2, random_state=0)
    >>> FederatedRCADetector(server=MomentServer()).fit(X).server_.transition_.shape
    (8, 8)
    """

    n_steps: int = 20
    alpha: float = 0.05

    _parameter_constraints = {
        "n_steps": [Interval(Integral, 0, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
    }

    def fit(self, messages: Mapping[str, StateMessage]) -> Self:
        """Learn the plant from one message per unit.

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        self : MomentServer

        What inputs do to the states is taken off these before.
        """
        self._validate_params()
        record = JointRecord.from_messages(messages)
        self._response = self._sparse_plant = None
        if record.u is not None:
            from .watching.inputs import learned_without  # for plants with inputs

            self._response, messages = learned_without(record, messages)
            record = JointRecord.from_messages(messages)
        if record.partition.n_states > _LARGE and self._learned_in_blocks(record):
            return self
        if not any(part.determined_rows.any() for part in record.parts):
            raise ValueError(
                f"No row of the {record.n_samples} shows the states of any unit, too many measurements are missing. "
                "Give rows in which most sensors of a unit are there together, or units of fewer states."
            )
        try:
            A, Q = moment_start(record.scores.moments(1), record.block_diagonal(record.scores.noise))
        except np.linalg.LinAlgError as error:
            parts = zip(record.names, record.parts, strict=True)
            rows = ", ".join(f"{part.determined_rows.sum()} of {name!r}" for name, part in parts)
            raise ValueError(
                f"Too few of the {record.n_samples} rows show the states of some unit ({rows}): too many measurements "
                "are missing. Give rows in which most sensors of a unit are there together, or units of fewer states."
            ) from error
        self.names_, self.partition_, self.support_ = record.names, record.partition, None
        self.state_slices_ = dict(zip(record.names, record.partition.slices, strict=True))
        self.information_ = record.mean_information()
        if self.n_steps:
            A, Q = self._refined(record, A, Q)
        self.transition_, self.process_cov_ = A, (Q + Q.T) / 2
        return self

    def _learned_in_blocks(self, record):
        """Learn a plant of many units in blocks, as the likelihood server does; False where that is not possible."""
        from .fitting import LikelihoodOptions
        from .likelihood import LARGE, LikelihoodServer  # for such plants only
        from .sparse.server import learned_in_blocks

        options = LikelihoodOptions(level_shifts=None, max_iter=TUNING.moments_block_steps)
        learner = LikelihoodServer(shrink=False, alpha=self.alpha, options=options)
        learner.frees_lags = self._response is None  # what is left of inputs asks for lags that links have not
        if record.u is not None or len(record.names) <= LARGE or not learned_in_blocks(learner, record)[0]:
            return False
        self.names_, self.partition_ = record.names, record.partition
        self.state_slices_, self.information_ = learner.state_slices_, learner.information_
        self.transition_, self.process_cov_ = learner.transition_, learner.process_cov_
        self.support_, self._sparse_plant = learner.transition_ != 0, learner.plant_
        return True

    @property
    def watched_plant_(self) -> Any:
        """The plant that rows are watched by, sparse where it was learned in blocks."""
        return self.plant_ if self._sparse_plant is None else self._sparse_plant

    def joint_record(self, messages):
        """Record of the units of `fit`, without what inputs do to the states."""
        if self._response is not None and any(message.inputs is not None for message in messages.values()):
            from .watching.inputs import without

            messages = without(self._response, JointRecord.from_messages(messages, names=self.names_), messages)
        return super().joint_record(messages)

    def _refined(self, record, A, Q):
        """Steps towards maximum likelihood on the states as measured."""
        J = record.block_diagonal([usual_pattern(part) for part in record.parts])
        rows, starts = attended_rows(record)
        if not is_regular(J) or len(rows) < LEAST_ATTENDED * record.n_samples:
            return A, Q
        Q, N = (Q + Q.T) / 2, np.linalg.inv(J)
        if record.is_constant:
            x = record.z @ N
        else:
            x = filled_states(record, PlantFilter(A, Q, record).predicted)[rows]
        x = x - x.mean(axis=0) if len(starts) > len(record.starts) else remove_episode_means(x, starts)
        A, Q = expectation_maximisation(x, N, A, Q, starts, self.n_steps)
        statistics = block_statistics(x, N, A, Q, record.partition.slices, starts)
        self.support_ = _support(statistics, record, self.alpha)
        return expectation_maximisation(x, N, A, Q, starts, TUNING.moments_sparse_steps, self.support_)


def _support(statistics, record, alpha):
    """Elements of the units' own blocks and of those that are significant."""
    sizes = np.array([b.stop - b.start for b in record.partition.slices])
    linked, p_values = np.eye(len(sizes), dtype=bool), chi2.sf(statistics, np.outer(sizes, sizes))
    linked[~linked] = benjamini_hochberg(p_values[~linked], alpha)
    return linked.repeat(sizes, axis=0).repeat(sizes, axis=1)
