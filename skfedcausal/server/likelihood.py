"""The default server: maximum likelihood of the coupled plant from one message per unit."""

import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from ..message.states import EffectReply
from ..statespace.geweke import geweke_measures
from ..statespace.inputs import FeedbackGains, input_response, response_covariances
from ..statespace.matrices import few_threads
from .estimation.covariance import COVARIANCES
from .estimation.estimate import Settings, estimate_plant, screen_plant
from .estimation.input_checks import check_independent, controlled_units, excitation_table, feedback_table
from .estimation.noise_share import choose_filter, choose_noise_share
from .joint import JointRecord
from .links.benefit import Benefit, split_messages
from .links.intervals import intervals_table, measure_intervals, pair_of, spectrum_table
from .links.lags import best_order, check_lags, lagged_table, order_table
from .links.resampling import bootstrap_table, stability_table
from .links.tables import correlation_table, links_table
from .links.tests import check_method, tests_table
from .plant import ServerLearner
from .prediction import OperatingPoint

# a plant drifts if T (1 - |eigenvalue|) is below this (three of four random walks without
# measurement noise are, by the distribution of Dickey and Fuller's coefficient), in long and short records
_DRIFT = 8.0
_SLOW = 0.98
_USER = 6  # frames from a warning to whoever called `fit` of an estimator


@dataclass(repr=False, eq=False, kw_only=True)
class LikelihoodServer(ServerLearner):
    """Maximum-likelihood estimate of the plant from the units' sufficient statistics.

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
    controlled_units_ : tuple of str
        Units whose inputs depend on measurements.
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

    fix_local: bool = False
    sparsity: str | None = "fdr"
    alpha: float = 0.05
    shrink: bool = True
    level_shifts: str | None = "auto"
    likelihood: str = "whittle"
    covariance: str = "information"
    margin: float = 0.1
    held_out: float | None = None
    n_rounds: int = 1
    horizon: int = 50
    max_iter: int = 300
    tol: float = 1e-10

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

    tests_links = True

    @property
    def needs_local_model(self):
        """Whether the units have to send their own transition matrix."""
        return self.fix_local

    def __getstate__(self):
        return {**super().__getstate__(), "_run": None}  # no series of the record it was fitted to

    # -- fitting ---------------------------------------------------------------------------------

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
        if record.u is not None:
            u = record.standard_known.series
            check_independent(u.T @ u / len(u))
        settings = self._settings(record.names, messages)
        self.noise_share_ = self.filter_noise_share_ = None
        with few_threads(record.partition.n_states):
            if self.horizon > 1 and record.has_choice and record.u is not None:
                self.noise_share_, estimate = choose_noise_share(record, settings, self.horizon)
            else:
                estimate = estimate_plant(record, settings)
            filtered = self._keep(record, estimate, settings)
            filtered.forget_scores()
            self._diagnose_inputs(filtered)
            if self.has_feedback_:
                noisy = record.with_noise_share(self.noise_share_ or 0.0)
                estimate = estimate_plant(noisy, settings._replace(feedback=True))
                self._keep(record, estimate, settings)
                self._run = None
            self._warn()
            self._keep_links(estimate)
            self.benefit_ = None
            if self.held_out is not None:
                self.benefit_ = self.benefit(messages, held_out=self.held_out).by_unit()
        return self

    def _settings(self, names, messages):
        """How a plant of these messages is estimated."""
        local: list[tuple | None] = []
        for name in names:
            A, Q, B = (getattr(messages[name], x) for x in ("transition", "process_cov", "input_matrix"))
            is_known = A is not None and Q is not None
            if self.fix_local and not is_known:
                raise ValueError(f"fix_local=True needs the own model of unit {name!r}, which it did not send.")
            local.append((A, Q, B) if is_known else None)
        own = {name: value for name, value in self.get_params(deep=False).items() if name in Settings._fields}
        return Settings(tuple(local), time_domain=self.likelihood == "time-domain", **own)

    def _keep(self, record, estimate, settings):
        """Keep the estimate of a plant; the record with the noise that its filter supposes."""
        if self.noise_share_ is not None:
            self.filter_noise_share_, estimate = choose_filter(record, estimate, settings)
            record = record.with_noise_share(self.filter_noise_share_)
        partition = self.partition_ = record.partition
        self.names_, self.n_samples_ = record.names, record.n_samples
        self.state_slices_ = dict(zip(record.names, partition.slices, strict=True))
        self.transition_, self.unshrunk_transition_ = estimate.shrunk_A, estimate.A
        self.process_cov_ = estimate.Q
        self.input_slices_ = dict(zip(record.names, partition.input_slices, strict=True))
        self.input_, self.unshrunk_input_ = estimate.shrunk_B, estimate.B
        self.input_level_ = record.input_level
        self.coefficients_, self._parameters = estimate.coefficients, estimate.parameters
        is_exact = self.likelihood == "time-domain" or not (record.is_constant and record.determined.all())
        self.likelihood_ = "time-domain" if is_exact else "whittle"
        self.level_shifts_ = estimate.shifts.table
        scale = estimate.parameters.state_scale
        point = OperatingPoint.of(record, estimate.A, estimate.steps, estimate.levels, scale)
        self._operating_point = point
        self.n_iter_, self.converged_, self.gradient_norm_, self.has_prior_ = estimate.climb
        self.information_ = record.mean_information()
        self.correlations_ = correlation_table(record.names, estimate)
        return record

    def _diagnose_inputs(self, record):
        """Find out whether inputs are excited and whether they depend on measurements."""
        self.feedback_, self.excitation_, self.has_feedback_, self.laws_ = None, None, False, {}
        self.controlled_units_, self._run = (), None
        if record.partition.n_inputs:
            self.excitation_ = excitation_table(record, self.coefficients_.regressors)
            run = self._run = self._filter(self._operating_point.placed(record))
            self.feedback_ = feedback_table(record, run.updates)
            self.controlled_units_ = controlled_units(self.feedback_, self.names_)
            self.has_feedback_ = bool(self.controlled_units_)

    def _warn(self):
        """Say when the climb ended early, and which units cannot be told from random walks."""
        if not self.converged_:
            warnings.warn(
                f"The likelihood did not converge: after {self.n_iter_} iterations its gradient per time "
                f"step has length {self.gradient_norm_:.2e} (tol={self.tol:.0e}). Raise max_iter, give "
                "fewer states or more data; the links are tested at the point reached.",
                ConvergenceWarning,
                stacklevel=_USER,
            )
        values, modes = np.linalg.eig(self.unshrunk_transition_)
        slow = np.abs(values) > max(1 - _DRIFT / self.n_samples_, _SLOW)
        carriers = {int(np.abs(mode).argmax()) for mode in modes.T[slow]}
        slices = self.state_slices_.items()
        drifting = [name for name, rows in slices if carriers.intersection(range(rows.start, rows.stop))]
        if drifting:
            warnings.warn(
                f"Units whose states drift like a random walk within this record: {', '.join(drifting)}. "
                "Units that drift on their own seem to influence each other. Give differences or detrended "
                "measurements, or a record that is long against the drift.",
                UserWarning,
                stacklevel=_USER,
            )

    def _keep_links(self, estimate):
        partition, self._blocks = self.partition_, estimate.blocks["state"]
        geweke = geweke_measures(self.unshrunk_transition_, self.process_cov_, self.information_, partition)
        levels = {"alpha": self.alpha, "margin": self.margin}
        self.links_ = links_table(self.names_, partition, self._blocks, geweke, **levels)
        if partition.n_inputs and len(partition.input_pairs.pairs):
            family, blocks = partition.input_pairs, estimate.blocks["input"]
            inputs = links_table(self.names_, family, blocks, **levels, kind="input")
            self.links_ = pd.concat([self.links_, inputs], ignore_index=True)

    # -- the plant over a record -----------------------------------------------------------------

    def _record(self, messages):
        """Record of the units of `fit`, with their inputs and shifts."""
        record = super()._record(messages)
        if self.filter_noise_share_:
            record = record.with_noise_share(self.filter_noise_share_)
        return self._operating_point.placed(record)

    def _drive(self, A, B):
        return self._operating_point.drive(A, B)

    def _filter(self, record):
        """Filter over a record, for the record of `fit` the one that it has been through, once."""
        run, self._run = self._run, None
        return run if run is not None and run.is_about(record) else super()._filter(record)

    def smoothed(self, messages):
        """Each unit's own states given all units' messages, under the plant before shrinkage."""
        return self._smoothed(messages, self.unshrunk_transition_, self.unshrunk_input_)

    def replies(self, messages):
        """Reply to each unit: its own part of the plant and the other units' influence on its states."""
        replies = super().replies(messages)
        if self.filter_noise_share_ is None:
            return replies
        share = np.array([self.filter_noise_share_])
        return {
            name: reply if messages[name].unpredicted is None else replace(reply, noise_share=share)
            for name, reply in replies.items()
        }

    # -- inputs, on states; every unit maps the answers through its own sensors ------------------

    def take_laws(self, laws):
        """Store how controllers compute inputs from measurements.

        Parameters
        ----------
        laws : dict of str to FeedbackLaw
            Of the units whose inputs depend on measurements.
        """
        self.laws_ = dict(laws)

    def effects(self, change, *, held=None):
        """Effect of a change of inputs on the states of every unit.

        Parameters
        ----------
        change : ndarray of shape (n_steps, k)
            Change of all inputs at each step.
        held : ndarray of bool, shape (k,), default=None
            Inputs that no controller moves; the known controllers of the others respond. None holds all.

        Returns
        -------
        dict of str to EffectReply
            Row j is the effect one step after row j of `change`. The effect uses `transition_` and `input_`;
            its covariance is that of the estimate before shrinkage, given the selected links and laws. What
            links that were not selected add to the effect is added as a standard error too: the data speak
            for their absence, and a band must not contradict that.
        """
        c = self.coefficients_
        gains = None if held is None else self._gains(held)
        effect = input_response(self.transition_, self.input_, change, gains).effect
        # without the small posterior means of links that were not selected
        estimates = (self.transition_, self.unshrunk_transition_), (self.input_, self.unshrunk_input_)
        A, B = (np.where(unshrunk == 0, 0.0, shrunk) for shrunk, unshrunk in estimates)
        doubtful = effect - input_response(A, B, change, gains).effect
        A, B = np.hsplit(c.matrix, [self.partition_.n_states])
        if gains is not None:
            gains = gains.scaled(c.state_scale, c.input_scale)
        unshrunk = input_response(A, B, change / c.input_scale, gains)
        blocks = self.partition_.slices
        covariances = response_covariances(unshrunk, c.rows, c.cols, c.covariance, blocks)
        replies = {}
        for (name, rows), V in zip(self.state_slices_.items(), covariances, strict=True):
            S, d = c.state_scale[rows, rows], doubtful[:, rows]
            V = S @ V @ S.T + d[:, :, None] * d[:, None, :]
            replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
        return replies

    def _gains(self, held):
        """Laws of all controllers as matrices of the plant, without the inputs that are held."""
        n, k = self.input_.shape
        present, previous, persistence = np.zeros((k, n)), np.zeros((k, n)), np.zeros((k, k))
        for name, law in self.laws_.items():
            states, inputs = self.state_slices_[name], self.input_slices_[name]
            present[inputs, states], previous[inputs, states] = law.present, law.previous
            persistence[inputs, inputs] = law.persistence
        for matrix in (present, previous, persistence):
            matrix[held] = 0.0
        return FeedbackGains(present, previous, persistence)

    # -- links: functions in `links` take the settings, estimators' methods say what they are -----

    def link_intervals(self, level=0.95, *, geweke=False):
        """Intervals of the strength of each link between states, and the rows needed to decide it."""
        pairs, levels = self.partition_.pairs, {"level": level, "alpha": self.alpha, "margin": self.margin}
        table = intervals_table(self.names_, pairs, self._blocks, self.n_samples_, **levels)
        if geweke:
            effect, cause = pairs.T
            found = measure_intervals(self._parameters, self.information_, self.partition_, level)
            for name, values in zip(("geweke", "geweke_low", "geweke_high"), found, strict=True):
                table[name] = values[effect, cause]
        return table

    def spectrum(self, cause, effect, **settings):
        """Geweke's measure of the influence of one unit on another over frequency."""
        plant = self.unshrunk_transition_, self.process_cov_, self.information_
        pair = pair_of(self.names_, cause, effect)
        return spectrum_table(plant, self._parameters, self.partition_, pair, **settings)

    def benefit(self, messages, *, held_out=0.3):
        """Gain of each unit from the plant, on held-out rows, a `Benefit`."""
        if self.partition_.n_inputs:
            raise ValueError("The benefit of joining is computed for plants without inputs.")
        head, tail = split_messages(messages, held_out)

        def learn(known):
            return clone(self).set_params(held_out=None).fit(known)

        return Benefit(learn(head), lambda name: learn({name: head[name]}), tail)

    def test_links(self, messages, method="lr"):
        """Test each link between states given the others, by one of the three classical tests."""
        check_method(method, self.covariance)
        plant = clone(self).set_params(held_out=None).fit(messages)
        return tests_table(plant._record(messages), self._settings(plant.names_, messages), method)

    def lag_orders(self, messages, max_lags=5, *, held_out=0.3):
        """Comparison of plants with different numbers of lags on a record."""
        settings = self._settings(self.names_, messages)
        head, tail = (self._record(part) for part in split_messages(messages, held_out))
        return order_table(self._record(messages), head, tail, max_lags, settings)

    def lagged_links(self, messages, n_lags="aic", *, max_lags=5, by="pair"):
        """Links that act after several time steps, and their delays."""
        check_lags(n_lags, by)
        if isinstance(n_lags, str):
            n_lags = best_order(self.lag_orders(messages, max_lags), n_lags)
        settings = self._settings(self.names_, messages)
        return lagged_table(self._record(messages), n_lags, by, settings, self.margin)

    def bootstrap_links(self, messages, **settings):
        """Scatter of the estimates of links over resampled records, to check their standard errors."""
        record = self._record(messages)
        return bootstrap_table(record, self._settings(self.names_, messages), **settings)

    def stable_links(self, messages, **settings):
        """Links that the search finds in most halves of a record: stability selection."""
        return stability_table(self._record(messages), self.alpha, **settings)

    def screen(self, messages):
        """Test every pair once at the uncoupled plant, the fast first step of :meth:`fit`.

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
        return links_table(record.names, record.partition, blocks, alpha=self.alpha, margin=self.margin)
