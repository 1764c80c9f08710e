"""The default server: maximum likelihood of the coupled plant from one message per unit."""

from functools import partial
from numbers import Integral, Real

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from ..statespace.geweke import geweke_measures
from ..statespace.matrices import few_threads
from .answers import StateAnswers
from .estimation.diagnosis import warn_of_convergence, warn_of_drift
from .estimation.estimate import estimate_plant, process_covariance, screen_plant
from .estimation.excitation import check_separable, excitation_table
from .estimation.feedback import controlled_units, feedback_table
from .estimation.noise_share import choose_noise_share
from .estimation.sandwich import COVARIANCES
from .estimation.tracking import choose_filter
from .joint import JointRecord
from .links.questions import LinkQuestions
from .links.table import correlation_table, links_table
from .operating_point import OperatingPoint
from .questions import InputQuestions


class LikelihoodServer(StateAnswers, InputQuestions, LinkQuestions, BaseEstimator):
    """Learns the plant by maximum likelihood from the units' sufficient statistics.

    The messages ``z = C' R^-1 y`` and ``J = C' R^-1 C`` carry everything that the units' measurements say
    about the states, so the estimate equals that of a central machine with all raw data. Complete records
    are fitted through the Whittle likelihood, at a cost per iteration that does not depend on their
    length; records with missing measurements or absent units through the exact time-domain likelihood.
    Inputs that the units send along are regressors of the state equation, ``h[t] = A h[t-1] + B u[t-1] + w``.

    Parameters
    ----------
    fix_local : bool, default=False
        Keep the diagonal blocks at the units' own transition matrices (assumption 4.4 of [1]_) instead of
        re-estimating them, and how their inputs act on themselves where they know it. The units then send
        them along.
    sparsity : {"fdr", None}, default="fdr"
        "fdr" searches for links with false discovery control and estimates only those; None estimates
        every block (plain maximum likelihood, no selection, no shrinkage).
    alpha : float, default=0.05
        False discovery rate of the search and level of the verdicts.
    shrink : bool, default=True
        Shrink the off-diagonal blocks of `transition_` by empirical Bayes. Tables, tests and standard
        errors always use the estimate that is not shrunk.
    level_shifts : {"auto", None}, default="auto"
        "auto" looks for shifts of the operating point within an episode that nobody announced, which would
        otherwise be taken for links, and gives every unit that shifted a term of its own; None takes every
        unit's level as constant.
    likelihood : {"whittle", "time-domain"}, default="whittle"
        For complete records: "whittle" is fast, "time-domain" exact also at the ends of the record.
    covariance : {"information", "sandwich", "hac"}, default="information"
        Covariance of the estimates behind all tests, intervals and verdicts of links and the standard
        errors of answers. "information" is that of Gaussian noise of constant variance; "sandwich" holds
        for noise of any distribution whose variance may change with time [4]_, as long as innovations are
        unpredictable given the past; "hac" also where they are correlated over a few steps [5]_. Links are
        searched and shrunk by the information in any case.
    margin : float, default=0.1
        Strength below which an influence counts as none in the verdicts.
    held_out : float, default=None
        Share of every episode, its last part, on which `fit` also measures what every unit gains from joining
        (`benefit_`): the plant, and every unit alone, are learned once more from the rest. For plants
        without inputs. None does not measure it.
    n_rounds : int, default=1
        Rounds of messages. In every round after the first the units get their smoothed states back,
        re-estimate their sensors (loadings, noise, level) at home and send their message again: together
        with the server's fit this is expectation maximisation of the whole model, nothing pooled.
    horizon : int, default=50
        Steps ahead up to which forecasts under the recorded inputs choose how much counts as sensor noise in
        units with as many states as sensors, whose measurements alone do not tell; at most a tenth of the
        longest episode. 1 leaves it as small as the units suppose. Plants with inputs and complete records
        only.
    max_iter : int, default=300
        Iterations of the final climb.
    tol : float, default=1e-10
        Length of the gradient of the log-likelihood per time step, in the metric of its curvature, at which
        the climb has converged: the distance to the maximum in standard errors of a single time step.

    Attributes
    ----------
    names_ : tuple of str
        Units in the order of the matrices.
    n_samples_ : int
        Time steps of the record.
    state_slices_ : dict of str to slice
        States of each unit.
    transition_ : ndarray of shape (n, n)
        Transition matrix, off-diagonal blocks shrunk if asked.
    unshrunk_transition_ : ndarray of shape (n, n)
        Maximum-likelihood estimate on the selected links.
    process_cov_ : ndarray of shape (n, n)
        Process covariance, block-diagonal but for the pairs in `correlations_`.
    input_, unshrunk_input_ : ndarray of shape (n, k)
        Input matrix, like the transition matrices; no columns for a plant without inputs.
    input_slices_ : dict of str to slice
        Inputs of each unit among the columns of `input_`.
    input_level_ : ndarray of shape (k,)
        Mean of each input.
    coefficients_ : Coefficients or None
        ``[A | B]`` in standardised states with the covariance of its free elements; None for a plant without
        inputs.
    excitation_ : DataFrame or None
        One row per input: its standard deviation, order of persistent excitation and the share of its
        variance that is its own; None for a plant without inputs.
    feedback_ : DataFrame or None
        Tests of feedback from measurements to inputs; None for a plant without inputs.
    has_feedback_ : bool
        Whether one of these tests rejects at level 0.001.
    laws_ : dict of str to FeedbackLaw
        Laws of the controllers of units whose inputs depend on measurements.
    likelihood_ : {"whittle", "time-domain"}
        The likelihood that was maximised.
    noise_share_ : float or None
        Share of noise with which the plant was learned: of the way from what those units suppose to all that
        their past leaves unpredicted. More than one where forecasts under the inputs ask for it, because
        disturbances last longer than the states can tell. None without a choice.
    filter_noise_share_ : float or None
        Share with which the learned plant follows measurements, the one that predicts a single step best;
        `process_cov_` is the most likely one for it and the coefficients as they are.
    links_ : DataFrame
        One row per ordered pair of units, of kind "state" and, where the cause has inputs, "input".
    correlations_ : DataFrame
        Pairs of units whose process noise is correlated: a cause they share, or influence within one
        sampling period, that the data cannot give a direction.
    level_shifts_ : DataFrame
        One row per shift that was found: ``unit``, row ``start`` at which it began, ``size`` of what it adds
        to the state equation in standard deviations of the process noise, ``statistic`` and ``p_value`` of
        its Wald test given the plant. Empty without shifts.
    benefit_ : DataFrame or None
        One row per unit: ``gain, stderr, rows, neighbour, neighbour_gain, neighbour_stderr`` on held-out
        rows, see :meth:`FederatedGrangerEstimator.benefit`. None unless `held_out` is given.
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
    .. [4] White (1982), Maximum likelihood estimation of misspecified models, Econometrica 50(1).
    .. [5] Newey, West (1987), A simple, positive semi-definite, heteroskedasticity and autocorrelation
           consistent covariance matrix, Econometrica 55(3).

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
        "level_shifts": [StrOptions({"auto"}), None],
        "likelihood": [StrOptions({"whittle", "time-domain"})],
        "covariance": [StrOptions(set(COVARIANCES))],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "held_out": [Interval(Real, 0, 1, closed="neither"), None],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "horizon": [Interval(Integral, 1, None, closed="left")],
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
        level_shifts="auto",
        likelihood="whittle",
        covariance="information",
        margin=0.1,
        held_out=None,
        n_rounds=1,
        horizon=50,
        max_iter=300,
        tol=1e-10,
    ):
        self.fix_local = fix_local
        self.sparsity = sparsity
        self.alpha = alpha
        self.shrink = shrink
        self.level_shifts = level_shifts
        self.likelihood = likelihood
        self.covariance = covariance
        self.margin = margin
        self.held_out = held_out
        self.n_rounds = n_rounds
        self.horizon = horizon
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
        MemoryError
            If the information of the free elements does not fit into this machine's memory.

        Warns
        -----
        ConvergenceWarning
            If the climb ended before the gradient was as short as `tol`.
        UserWarning
            If units drift like random walks.
        """
        self._validate_params()
        record = JointRecord.from_messages(messages)
        check_separable(record)
        with few_threads(record.partition.n_states):
            self._fit_record(record, messages)
        return self

    def _fit_record(self, record, messages):
        """Everything the server learns from a record."""
        self.noise_share_ = self.filter_noise_share_ = None
        if self.horizon > 1 and record.has_choice and record.partition.n_inputs:
            estimate = partial(self._estimate, messages=messages)
            self.noise_share_, plant = choose_noise_share(record, estimate, self.horizon)
        else:
            plant = self._estimate(record, messages)
        filtered = self._learn(record, plant, messages)
        filtered.forget_scores()
        self._diagnose_inputs(filtered)
        if self.has_feedback_:
            noisy = record.with_noise_share(self.noise_share_ or 0.0)
            self._learn(record, self._estimate(noisy, messages, feedback=True), messages)
            self._run = None
        warn_of_convergence(self)
        warn_of_drift(self, record.n_samples)
        self.links_ = self._links()
        self.benefit_ = None
        if self.held_out is not None:
            self.benefit_ = self.benefit(messages, held_out=self.held_out).by_unit()

    def _learn(self, record, plant, messages):
        """Keep the estimate of a plant; the record with the noise that its filter supposes."""
        if self.noise_share_ is not None:
            settings = self._likelihood_settings(messages)
            kept = {name: settings[name] for name in ("local", "fix_local", "max_iter", "tol")}
            self.filter_noise_share_, plant = choose_filter(
                record, plant, partial(process_covariance, **kept)
            )
            record = record.with_noise_share(self.filter_noise_share_)
        self._store(record, plant)
        return record

    def _estimate(self, record, messages, feedback=False):
        return estimate_plant(
            record,
            shrinkage=self.shrink,
            feedback=feedback,
            level_shifts=self.level_shifts,
            covariance=self.covariance,
            **self._likelihood_settings(messages),
        )

    def _likelihood_settings(self, messages):
        """What decides which likelihood is maximised."""
        return {
            "local": [_local_model(name, message, self.fix_local) for name, message in messages.items()],
            "fix_local": self.fix_local,
            "sparsity": self.sparsity,
            "alpha": self.alpha,
            "time_domain": self.likelihood == "time-domain",
            "max_iter": self.max_iter,
            "tol": self.tol,
        }

    def _store(self, record, estimate):
        self.names_, self.n_samples_ = record.names, record.n_samples
        self.partition_ = record.partition
        self.state_slices_ = dict(zip(record.names, record.partition.slices, strict=True))
        self.transition_ = estimate.shrunk_A
        self.unshrunk_transition_ = estimate.A
        self.process_cov_ = estimate.Q
        self.input_slices_ = dict(zip(record.names, record.partition.input_slices, strict=True))
        self.input_ = estimate.shrunk_B
        self.unshrunk_input_ = estimate.B
        self.input_level_ = record.input_level
        self.coefficients_ = estimate.coefficients if record.partition.n_inputs else None
        self._parameters = estimate.parameters
        complete = record.is_constant and all(record.determined)
        self.level_shifts_ = estimate.shifts.table(record.names)
        self._operating_point = OperatingPoint.of(record, estimate)
        self.likelihood_ = self.likelihood if complete else "time-domain"
        self.n_iter_ = estimate.n_iter
        self.converged_ = estimate.converged
        self.gradient_norm_ = estimate.gradient_norm
        self.has_prior_ = estimate.has_prior
        self.information_ = record.block_diagonal([p.mean_information for p in record.parts])
        self._blocks, self._input_blocks = estimate.blocks, estimate.input_blocks
        self.correlations_ = correlation_table(record.names, estimate)

    def _diagnose_inputs(self, record):
        """Find out whether inputs are excited and whether they depend on measurements."""
        self.feedback_, self.excitation_, self.has_feedback_, self.laws_ = None, None, False, {}
        self._run = None
        if record.partition.n_inputs:
            self.excitation_ = excitation_table(record, self.coefficients_.regressors)
            run = self._run = self._filter(self._operating_point.placed(record))
            self.feedback_ = feedback_table(record, run.updates)
            self.has_feedback_ = bool(self.controlled_units_)

    @property
    def controlled_units_(self):
        """Units whose inputs depend on measurements."""
        return () if self.feedback_ is None else controlled_units(self.feedback_, self.names_)

    def _links(self):
        partition = self.partition_
        geweke = geweke_measures(self.unshrunk_transition_, self.process_cov_, self.information_, partition)
        levels = {"alpha": self.alpha, "margin": self.margin}
        states = links_table(self.names_, partition, self._blocks, geweke, **levels)
        pairs = partition.input_pairs
        if not len(pairs.pairs):
            return states
        unknown = np.full_like(geweke, np.nan)  # Geweke's measure is between measured processes
        inputs = links_table(self.names_, pairs, self._input_blocks, unknown, **levels, kind="input")
        return pd.concat([states, inputs], ignore_index=True)

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


def _local_model(name, message, needed):
    """A unit's own transition matrix and process covariance as far as it sent them."""
    if message.transition is None or message.process_cov is None:
        if needed:
            raise ValueError(f"fix_local=True needs the own model of unit {name!r}, which it did not send.")
        return None
    return message.transition, message.process_cov, message.input_matrix
