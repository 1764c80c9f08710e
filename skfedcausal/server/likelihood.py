"""The default server: maximum likelihood of the coupled plant from one message per unit."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from ..message import SmoothedReply, StateReply
from ..statespace.geweke import geweke_measures
from .estimate import estimate_plant, screen_plant
from .joint import JointRecord
from .links import correlation_table, links_table
from .prediction import PlantFilter, smooth_plant

# a plant drifts if T (1 - |eigenvalue|) is below this (three of four random walks without
# measurement noise are, by the distribution of Dickey and Fuller's coefficient), in long and short records
_DRIFT = 8.0
_SLOW = 0.98


class LikelihoodServer(BaseEstimator):
    """Learns the plant by maximum likelihood from the units' sufficient statistics.

    The messages ``z = C' R^-1 y`` and ``J = C' R^-1 C`` carry everything that the units' measurements say
    about the states, so the estimate equals that of a central machine with all raw data. Complete records
    are fitted through the Whittle likelihood, at a cost per iteration that does not depend on their
    length; records with missing measurements or absent units through the exact time-domain likelihood.

    Parameters
    ----------
    fix_local : bool, default=False
        Keep the diagonal blocks at the units' own transition matrices (assumption 4.4 of [1]_) instead of
        re-estimating them. The units then send them along.
    sparsity : {"fdr", None}, default="fdr"
        "fdr" searches for links with false discovery control and estimates only those; None estimates
        every block (plain maximum likelihood, no selection, no shrinkage).
    alpha : float, default=0.05
        False discovery rate of the search and level of the verdicts.
    shrink : bool, default=True
        Shrink the off-diagonal blocks of `transition_` by empirical Bayes. Tables, tests and standard
        errors always use the estimate that is not shrunk.
    margin : float, default=0.1
        Strength below which an influence counts as none in the verdicts.
    n_rounds : int, default=1
        Rounds of messages. In every round after the first the units get their smoothed states back,
        re-estimate their sensors (loadings, noise, level) at home and send their message again: together
        with the server's fit this is expectation maximisation of the whole model, nothing pooled.
    max_iter : int, default=300
        Iterations of the final climb.
    tol : float, default=1e-10
        Length of the gradient of the log-likelihood per time step, in the metric of its curvature, at which
        the climb has converged: the distance to the maximum in standard errors of a single time step.

    Attributes
    ----------
    names_ : tuple of str
        Units in the order of the matrices.
    state_slices_ : dict of str to slice
        States of each unit.
    transition_ : ndarray of shape (n, n)
        Transition matrix, off-diagonal blocks shrunk if asked.
    unshrunk_transition_ : ndarray of shape (n, n)
        Maximum-likelihood estimate on the selected links.
    process_cov_ : ndarray of shape (n, n)
        Block-diagonal process covariance.
    links_ : DataFrame
        One row per ordered pair of units.
    correlations_ : DataFrame
        Pairs of units whose process noise is correlated: a cause they share, or influence within one
        sampling period, that the data cannot give a direction.
    n_iter_ : int
    converged_ : bool
    gradient_norm_ : float
        Length of the gradient at the end, as in `tol`.
    has_prior_ : bool
        Whether the plant was nearly degenerate (units that move almost together, unit roots) and its
        likelihood was backed by a few pseudo-observations.

    Notes
    -----
    After a search, p-values of pairs outside the model are efficient score tests given the links in the
    model; those of pairs inside are Wald tests given the other links. They do not account for the
    selection itself.

    With ``s = J^-1 z = h + e`` and ``N = J^-1`` the Whittle likelihood per time step is ``-1/2 mean_w [log
    det Phi + tr Phi^-1 I_r]``, where ``r[t] = s[t] - A s[t-1]`` has the spectrum ``Phi = Q + Z N Z^H``, ``Z =
    exp(i w) I - A`` and the periodogram ``I_r`` [2]_. The links are searched at false discovery rate `alpha`
    [3]_.

    References
    ----------
    .. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent
           Clients with State Space Representation.
    .. [2] Whittle (1953), Estimation and information in stationary time series, Arkiv för Matematik 2.
    .. [3] Benjamini, Hochberg (1995), Controlling the false discovery rate, Journal of the Royal Statistical
           Society B 57(1).

    Examples
    --------
    >>> from skfedcausal import KalmanClient, LikelihoodServer
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
    >>> server = LikelihoodServer().fit(messages)
    >>> server.converged_, server.transition_.shape
    (True, (6, 6))
    >>> server.links_.query("verdict == 'influence'")[["cause", "effect"]].to_string(index=False)
    'cause effect\\nunit0  unit2'
    """

    _parameter_constraints = {
        "fix_local": ["boolean"],
        "sparsity": [StrOptions({"fdr"}), None],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "shrink": ["boolean"],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        fix_local=False,
        sparsity="fdr",
        alpha=0.05,
        shrink=True,
        margin=0.1,
        n_rounds=1,
        max_iter=300,
        tol=1e-10,
    ):
        self.fix_local = fix_local
        self.sparsity = sparsity
        self.alpha = alpha
        self.shrink = shrink
        self.margin = margin
        self.n_rounds = n_rounds
        self.max_iter = max_iter
        self.tol = tol

    @property
    def needs_local_model(self):
        """Whether the units have to send their own transition matrix."""
        return self.fix_local

    def fit(self, messages):
        """Learn the plant.

        Parameters
        ----------
        messages : dict of str to StateMessage
            One message per unit, all over the same time steps.

        Returns
        -------
        self : LikelihoodServer

        Raises
        ------
        ValueError
            If the messages cover different episodes, or the sensors of a unit do not determine its states and
            it sent no model of its own.

        Warns
        -----
        ConvergenceWarning
            If the climb ended before the largest derivative fell below `tol`.
        """
        self._validate_params()
        record = JointRecord.from_messages(messages)
        estimate = estimate_plant(
            record,
            local=[_local_model(name, message, self.fix_local) for name, message in messages.items()],
            fix_local=self.fix_local,
            sparsity=self.sparsity,
            alpha=self.alpha,
            shrinkage=self.shrink,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        return self._store(record, estimate)

    def _store(self, record, estimate):
        self.names_ = record.names
        self.partition_ = record.partition
        self.state_slices_ = dict(zip(record.names, record.partition.slices, strict=True))
        self.transition_ = estimate.shrunk_A
        self.unshrunk_transition_ = estimate.A
        self.process_cov_ = estimate.Q
        self.n_iter_ = estimate.n_iter
        self.converged_ = estimate.converged
        self.gradient_norm_ = estimate.gradient_norm
        self.has_prior_ = estimate.has_prior
        self.information_ = record.block_diagonal([p.mean_information for p in record.parts])
        self._blocks = estimate.blocks
        self.correlations_ = correlation_table(record.names, estimate)
        if not estimate.converged:
            warnings.warn(
                f"The likelihood did not converge: after {estimate.n_iter} iterations its gradient per time "
                f"step has length {estimate.gradient_norm:.2e} (tol={self.tol:.0e}). Raise max_iter, give "
                "fewer states or more data; the links are tested at the point reached.",
                ConvergenceWarning,
                stacklevel=6,
            )
        self._warn_about_drift(record.n_samples)
        self.links_ = self._links()
        return self

    def _warn_about_drift(self, n_samples):
        """Say which units cannot be told from random walks."""
        values, modes = np.linalg.eig(self.unshrunk_transition_)
        slow = np.abs(values) > max(1 - _DRIFT / n_samples, _SLOW)
        carriers = {int(np.abs(mode).argmax()) for mode in modes.T[slow]}
        drifting = [
            name
            for name, rows in self.state_slices_.items()
            if carriers.intersection(range(rows.start, rows.stop))
        ]
        if drifting:
            warnings.warn(
                f"Units whose states drift like a random walk within this record: {', '.join(drifting)}. "
                "Units that drift on their own seem to influence each other. Give differences or detrended "
                "measurements, or a record that is long against the drift.",
                UserWarning,
                stacklevel=7,
            )

    def _links(self):
        partition = self.partition_
        geweke = geweke_measures(self.unshrunk_transition_, self.process_cov_, self.information_, partition)
        return links_table(self.names_, partition, self._blocks, geweke, alpha=self.alpha, margin=self.margin)

    def screen(self, messages):
        """Test every pair once, at the uncoupled plant: the fast first step of :meth:`fit`.

        Score tests that take no other links into account, so an indirect influence may show. Geweke's
        measure, which needs the whole plant, is missing (NaN).

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        DataFrame
            With the columns of `links_`.

        Examples
        --------
        >>> from skfedcausal import KalmanClient, LikelihoodServer
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
        >>> table = LikelihoodServer().screen(messages)
        >>> table.loc[table["p_value"].idxmin(), ["cause", "effect"]].tolist()
        ['unit0', 'unit2']
        """
        self._validate_params()
        record = JointRecord.from_messages(messages)
        blocks = screen_plant(record)
        unknown = np.full((record.partition.n_units,) * 2, np.nan)
        return links_table(
            record.names, record.partition, blocks, unknown, alpha=self.alpha, margin=self.margin
        )

    def filter(self, messages):
        """Filter of the whole plant over a record, a :class:`PlantFilter`."""
        record = JointRecord.from_messages(messages, names=self.names_)
        return PlantFilter(self.transition_, self.process_cov_, record)

    def smoothed(self, messages):
        """Every unit's own states given all units' messages.

        Returns
        -------
        dict of str to SmoothedReply
        """
        record = JointRecord.from_messages(messages, names=self.names_)
        states, covariances = smooth_plant(self.unshrunk_transition_, self.process_cov_, record)
        return {
            name: SmoothedReply(np.ascontiguousarray(states[:, rows]), covariance)
            for (name, rows), covariance in zip(self.state_slices_.items(), covariances, strict=True)
        }

    def replies(self, messages):
        """What every unit is told about its own states.

        Returns
        -------
        dict of str to StateReply
        """
        run = self.filter(messages)
        off_diagonal = np.where(self.partition_.block_diagonal, 0.0, self.transition_)
        cross_terms = run.carried(off_diagonal)
        replies = {}
        for name, rows in self.state_slices_.items():
            replies[name] = StateReply(
                np.ascontiguousarray(cross_terms[:, rows]),
                self.transition_[rows, rows],
                self.process_cov_[rows, rows],
            )
        return replies


def _local_model(name, message, needed):
    """A unit's own transition matrix and process covariance as far as it sent them."""
    if message.transition is None or message.process_cov is None:
        if needed:
            raise ValueError(f"fix_local=True needs the own model of unit {name!r}, which it did not send.")
        return None
    return message.transition, message.process_cov
