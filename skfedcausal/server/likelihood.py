"""The default server: maximum likelihood of the coupled plant from one message per unit."""

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..statespace.matrices import few_threads, keep_freed_memory
from ..statespace.partition import positions_of
from .effects import effects, gains_of
from .estimation.covariance import COVARIANCES
from .estimation.estimate import FEW, LARGE, Settings, estimate_plant, may_stand_in
from .estimation.input_checks import check_independent, controlled_units, excitation_table, feedback_table, input_sums
from .estimation.noise_share import choose_filter, choose_noise_share
from .estimation.scoring import Budget
from .joint import JointRecord
from .lagged.misfit import filled_record, is_mostly_there, lag_tests, level_of, misfit_table, one_lag_is_enough
from .lagged.timing import SAMPLED, refuse_at_once, refuse_delays, words_by_input
from .links.grades import grades_of
from .links.questions import LinkQuestions
from .links.tables import correlation_table
from .prediction import OperatingPoint, smooth_plant
from .warned import drifting_units, warn_of_border, warn_of_budget, warn_of_climb, warn_of_drift, warn_of_filled_gaps

_ONE_LAG, _FILTER = 0.4, 0.2  # shares of what is left of a budget: of the plant of one lag, of its filter
# times the work of one lag, share of the budget, and seconds up to another one, that several lags may take without
# inputs: searches that end take up to 3 times as much, those that do not 17 to 55 times
_LAGS, _LAGS_ANYWAY, _LAGS_SECONDS, _LAGS_SHARE = 6.0, 0.12, 3.0, 0.3


@dataclass(repr=False, eq=False, kw_only=True)
class LikelihoodServer(LinkQuestions):
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
        "fdr" searches for links and for noise that units share with false discovery control and estimates
        only those; None estimates every block of both (plain maximum likelihood, no selection, no shrinkage).
    alpha : float, default=0.05
        False discovery rate of the search and level of the verdicts.
    correction : {"auto", "family-wise", "fdr"}, default="auto"
        What ``p_adjusted`` and the verdicts of links hold at level `alpha` over all pairs: "family-wise" the chance
        of any false influence, "fdr" the share of false ones among those that are found (Benjamini & Hochberg).
        "auto" is "family-wise" up to 32 units and "fdr" of more, whatever else is asked, so that links are found
        about as well of a thousand units as of sixteen (:doc:`/scale`). `correction_` says which it was.
    shrink : bool, default=True
        Shrink the off-diagonal blocks of `transition_` by empirical Bayes. Tables, tests and standard
        errors always use the estimate that is not shrunk.
    level_shifts : {"auto", None}, default="auto"
        "auto" looks for shifts of the operating point within an episode that nobody announced, which would
        otherwise be taken for links, and gives every unit that shifted a term of its own; None takes every
        unit's level as constant.
    sampled : {"auto", "after", "before"} or dict, default="auto"
        When inputs are set: "before" the row they are recorded in is measured, so that they may act in it, or
        "after". A dict has a word, or one for each input, by unit. "auto" is "before" only where the record
        says that an input acts at once and that no measurement acts on it: safe under feedback. "before"
        makes the plant one of several lags, and is refused where only one can be learned.
    forbidden, required : str, list, DataFrame or networkx.DiGraph, optional
        Links between states that there cannot be, and that there are: words such as ``"unit0 -> unit1"``, pairs
        (cause, effect), a table with columns ``cause`` and ``effect``, or a graph. A forbidden link is zero in every
        matrix and has the verdict "no influence"; a required one is never searched for nor dropped, and has the
        verdict "influence", whatever its p-value is.
    delays : dict, DataFrame or networkx.DiGraph, optional
        Rows after which a link may act, ``{"unit0 -> unit1": 3}`` or several of them, a table or edges with a
        ``delay``. At other lags it is zero; where one row is not among them a plant of several lags is learned.
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
    n_rounds : int or "auto", default=1
        Rounds of messages, beside the few sensors that units share. In every round after the first the units get their
        smoothed states back, re-estimate their sensors (loadings, noise, level) at home and send their message again:
        together with the server's fit this is expectation maximisation of the whole model, nothing pooled, and every
        message leaves once more. "auto" asks the units of which an autoregression of their own measurements is
        likelier than their model, as long as the likelihood of the record gains from another round, at most 30 times.
        It is one round over links that go one way, for plants with inputs, with measurements missing, and under
        privacy.
    horizon : int, default=50
        Steps ahead up to which forecasts under the recorded inputs choose how much counts as sensor noise in
        units with as many states as sensors, whose measurements alone do not tell; at most a tenth of the
        longest episode. 1 leaves it as small as the units suppose. Plants of up to 64 units with inputs and
        complete records only.
    max_time : float, default=25.0
        Seconds of a processor that a fit may take. What it does besides searching (units' own models, held-out gains,
        checks) is taken off first, up to four fifths; two fifths of the rest are for the plant of one lag. They are
        counted in operations so that what is learned does not depend on the load; a clock of the processor stops what
        takes longer than it counts as. The best plant so far is kept, with a warning.
    max_iter : int, default=300
        Iterations of the final climb.
    tol : float, default=1e-10
        Length of the gradient of the log-likelihood per time step, in the metric of its curvature, at which
        the climb has converged: the distance to the maximum in standard errors of a single time step.
    n_jobs : int, default=None
        Processes, or workers of the backend of `joblib.parallel_config`, that plants of 128 units or more are
        learned with. None takes what is configured, one unless it is. The same bits come for any number.

    Attributes
    ----------
    names_ : tuple of str
        Units in the order of the matrices.
    n_samples_ : int
        Time steps of the record.
    state_slices_ : dict of str to slice
        States of each unit.
    alone_ : tuple of str
        Units whose measurements an autoregression of their own predicts better, by BIC, than the plant does.
        They are predicted by it, and no verdict is given about links to them.
    transition_ : ndarray of shape (n, n)
        Transition matrix, off-diagonal blocks shrunk if asked.
    unshrunk_transition_ : ndarray of shape (n, n)
        Maximum-likelihood estimate on the selected links.
    process_cov_ : ndarray of shape (n, n)
        Process covariance, block-diagonal but for the pairs in `correlations_`, which are all without a search.
    input_, unshrunk_input_ : ndarray of shape (n, k)
        Input matrix, like the transition matrices; no columns for a plant without inputs.
    lag_transitions_ : ndarray of shape (p, n, n)
        Transition matrices of lags 1 to p, the first of which is `transition_`; of one lag where that is
        enough.
    lag_inputs_ : ndarray of shape (q, n, k)
        Input matrices of lags 1 to q, the first of which is `input_`.
    input_at_once_ : ndarray of shape (n, k)
        What inputs do in the row they are recorded in, zero for a plant of one lag.
    misfit_ : DataFrame
        Score tests of later lags of every channel given its first: ``cause, effect, kind, p_value,
        p_adjusted`` (Bonferroni over all of them). Empty where one lag is kept without a test: records of
        less than 250 rows in a row, units seen in too few rows, `covariance` or `likelihood` other than the
        default ones, `fix_local`.
    input_slices_ : dict of str to slice
        Inputs of each unit among the columns of `input_`.
    input_level_ : ndarray of shape (k,)
        Mean of each input.
    controlled_units_ : tuple of str
        Units whose inputs depend on measurements.
    coefficients_ : Coefficients or None
        ``[A | B]`` in standardised states with the covariance of its free elements; None for a plant without
        inputs or of several lags.
    excitation_ : DataFrame or None
        One row per input: its standard deviation, order of persistent excitation and the share of its
        variance that is its own; None for a plant without inputs.
    feedback_ : DataFrame or None
        Tests of feedback from measurements to inputs; None for a plant without inputs.
    hidden_causes_ : DataFrame or None
        Tests whether inputs move with measurements of other units that they cannot have caused.
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
        One row per ordered pair of units, of kind "state" and, where the cause has inputs, "input". ``basis`` is what
        the verdict rests on: the "likelihood" of the plant, where its assumptions hold, else a "held-out gain", for
        which noise need not be white: on twenty stretches, each predicted from the others, ``strength``, with ``low``
        and ``high``, is the share of the effect's news that the past of the cause tells beyond its own and that of
        other units, ``total`` beyond its own alone (summed over directions of its states), ``same_row`` what the two
        share in the same row, ``driver_needed`` the share of both that a driver nobody measures must explain to
        make ``low`` zero, ``lag`` the row after which most of it acts, and ``evidence`` ranks pairs. ``verdict`` is
        "influence", "coupled" (linked, but a driver of both or a link both ways cannot be told apart), "no influence",
        "negligible" (nothing to add to the row itself) or "cannot tell"; ``because`` is what speaks most against it.
        These columns are NaN for batches, secure sums, inputs, records too short for the stretches, more than 64
        units, and more than 32 whose pairs nearly all meet its assumptions. ``norm`` is the Frobenius norm of the
        block in standardised states. ``delay`` is the first lag in rows that acts, the most probable one,
        ``delay_low`` and ``delay_high`` are the ends of a set of 90 % of the
        probability; NaN where there is no link. With several lags
        ``norm`` is that of the blocks of all lags, ``statistic`` twice the log evidence,
        ``p_adjusted`` Holm's where it is family-wise. Of more than 200 units
        there are rows for links and pairs with p-values of up to 0.001 only.
    correction_ : {"family-wise", "fdr"}
        What ``p_adjusted`` is about, see `correction`.
    n_absent_ : int
        Pairs of units that were tested and have no row in `links_`.
    correlations_ : DataFrame
        Pairs of units whose process noise is correlated: a cause they share, or influence within one
        sampling period. ``p_first_acts`` and ``p_second_acts`` are p-values of the hypothesis that one acts on the
        other there and nothing else does, ``direction`` is the one that alone is left ("first -> second"), or
        "cannot tell", as for all noise that is Gaussian. With ``sparsity=None`` all pairs.
    level_shifts_ : DataFrame
        One row per shift that was found: ``unit``, row ``start`` at which it began, ``size`` of what it adds
        to the state equation in standard deviations of the process noise, ``statistic`` and ``p_value`` of
        its Wald test given the plant. Empty without shifts.
    benefit_ : DataFrame or None
        One row per unit: ``gain, stderr, rows, neighbour, neighbour_gain, neighbour_stderr`` on held-out
        rows, see :meth:`FederatedGrangerEstimator.benefit`. None unless `held_out` is given.
    filled_ : bool
        Whether Whittle's likelihood of what each row says by itself stands for the exact one where gaps take more than
        a twentieth of what the record tells, because that would have taken longer than `max_time`. Standard errors
        know of the rows that are lost by it.
    outdone_ : bool
        Whether the search for links ended after its first stage, without a warning, since responses surely answer
        better what inputs do (only for estimators that have them, :doc:`/counterfactual`).
    n_rounds_ : int
        Rounds of messages that the plant was learned from.
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
    correction: str = "auto"
    shrink: bool = True
    level_shifts: str | None = "auto"
    sampled: str | Mapping = "auto"
    forbidden: Any = None
    required: Any = None
    delays: Any = None
    likelihood: str = "whittle"
    covariance: str = "information"
    margin: float = 0.1
    held_out: float | None = None
    n_rounds: Any = 1  # or "auto"
    horizon: int = 50
    max_time: float = 25.0
    max_iter: int = 300
    tol: float = 1e-10
    n_jobs: int | None = None

    _large = None  # matrices of a plant that was learned in blocks

    _parameter_constraints = {
        "fix_local": ["boolean"],
        "sparsity": [StrOptions({"fdr"}), None],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "correction": [StrOptions({"auto", "family-wise", "fdr"})],
        "shrink": ["boolean"],
        "level_shifts": [StrOptions({"auto"}), None],
        "sampled": [StrOptions(set(SAMPLED)), dict],
        "forbidden": "no_validation",  # many forms, read by `read_knowledge`
        "required": "no_validation",
        "delays": "no_validation",
        "likelihood": [StrOptions({"whittle", "time-domain"})],
        "covariance": [StrOptions(set(COVARIANCES))],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "held_out": [Interval(Real, 0, 1, closed="neither"), None],
        "n_rounds": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "horizon": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    tests_links = True
    knows_curvature = True  # whether effects depend on the inputs that are changed
    frees_lags = True  # whether plants of several lags are learned where the record asks for them
    yields_to_responses = False  # whether a search for links ends where responses will answer what inputs do
    looks_for_all_drivers = False  # also where other checks leave no verdict, for those who ask what would help
    _is_outdone = False  # the plant, by responses
    work_left = 0.0  # seconds of `max_time` that the fit left
    _batches = None  # what was learned from, batch by batch
    clock = None  # the whole `Budget` of a fit while it goes on
    _are_shared = False  # whether sensors that several units read are states of theirs: their noise goes together

    @property
    def outdone_(self):
        """Whether the search ended after its first stage since responses answer."""
        return self._is_outdone

    @property
    def acts_at_once(self):
        """Whether some input acts in the row it is recorded in."""
        return self._lagged is not None and bool(self._lagged.dynamics.B[0].any())

    @property
    def relays_inputs(self):
        """Whether units are told inputs of others before they choose their order, which is a round more."""
        return self.n_rounds != 1

    @property
    def needs_local_model(self):
        """Whether the units have to send their own transition matrix."""
        return self.fix_local

    @property
    def needs_replies(self):
        """Whether a fit needs more than the first message of each unit; not where it may do without."""
        return self.n_rounds != "auto" and self.n_rounds > 1

    def __getstate__(self):
        return {**super().__getstate__(), "_run": None, "clock": None}  # no series of the record it was fitted to

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
            If the information of the free elements, or a plant of many units, does not fit into memory.

        Warns
        -----
        ConvergenceWarning
            If the climb ended before the gradient was as short as `tol`.
        UserWarning
            If units drift like random walks.
        """
        self._validate_params()
        keep_freed_memory()
        record = JointRecord.from_messages(messages)
        for first, second in record.copies():
            warnings.warn(
                f"Units {first!r} and {second!r} send the same states: one unit under two names? Links of both are "
                "shared out between them at will. Leave one out.",
                stacklevel=2,
            )
        if record.u is not None:
            u = record.standard_known.series
            check_independent(u.T @ u / len(u))
        with few_threads(record.partition.n_states):
            self._grades = grades_of(record) if len(record.names) <= LARGE else None
        with self._processes(len(messages)):
            self._learn(record, messages)
            self.benefit_ = self._batches = None
            with few_threads(record.partition.n_states):
                self._leave_alone(messages)
                self._check_assumptions(messages)
                self.clock = None
                if self.held_out is not None:
                    self._measure_benefit(messages)
        return self

    def _processes(self, n_units):
        """Processes for the whole of a fit of many units, the same ones where they began with the units."""
        if n_units <= LARGE:
            return nullcontext()
        from ..parallel import workers  # for plants of many units

        return workers(n_units, self.n_jobs)

    def partial_fit(self, messages, *, continues=False, forget=None):
        """Learn the plant from one more batch of rows, of which sums are added to those of the batches before.

        What is learned is what :meth:`fit` would learn from all rows together, with ``level_shifts=None``, but for
        rounding. Only the last batch is looked at row by row: for `validity_`, for feedback and for how inputs act on
        it. Gaps of a batch are filled as the plant before expects.

        Parameters
        ----------
        messages : dict of StateMessage
            One of each unit about the rows of the batch, by the model that the unit had in the first batch. Units of
            which there is none are absent from these rows; in the first batch they do not become part of the plant.
        continues : bool, default=False
            Whether the first row follows the last one of the batch before. If not, the batch begins an episode.
        forget : float, default=None
            Share of their weight that all earlier rows lose, 1 to begin anew; the batch then begins an episode.

        Returns
        -------
        LikelihoodServer
        """
        from .running import learn_batch  # of records that go on

        learn_batch(self, messages, continues=continues, forget=forget)
        return self

    def _learn(self, record, messages=None):
        """Learn the plant of a joint record, of which there may be no messages but sums."""
        self._large, self.n_absent_, self._is_outdone = None, 0, False
        self.correction_ = self._correction_of(record.names)
        if self._is_learned_in_blocks(record):
            return
        budget = self._next_budget()
        budget.leave(_work_beside(record))
        settings = record.adapted(self._settings(record.names, messages)._replace(budget=budget.part(_ONE_LAG)))
        record = self._with_knowledge(record)
        if record.known_links is not None:
            record.known_links.check_length(record)
        self.noise_share_ = self.filter_noise_share_ = self._gapless = None
        self.filled_ = False
        with few_threads(record.partition.n_states):
            estimate = self._outdone(record, messages, settings, budget)
            self._is_outdone = estimate is not None
            if estimate is None and self.horizon > 1 and record.has_choice and record.u is not None:
                self.noise_share_, estimate = choose_noise_share(record, settings, self.horizon)
            elif estimate is None:
                estimate = self._estimate(record, messages, settings, budget)
            filtered = self._keep(record, estimate, settings._replace(budget=budget.part(_FILTER)))
            self._diagnose_inputs(filtered.at_hand)
            if self.has_feedback_ and not self._is_outdone:
                noisy = record.with_noise_share(self.noise_share_ or 0.0)
                again = settings._replace(feedback=True, budget=budget.part(_ONE_LAG))
                estimate = estimate_plant(noisy, again)
                self._keep(record, estimate, settings._replace(budget=budget.part(_FILTER)))
                self._run = None
            self._say_how_it_ended(settings.budget)
            self._keep_links(estimate)
            self._raw = record
            self._free_lags(filtered, estimate, settings._replace(budget=budget.part(_ONE_LAG)), budget)
            self._qualify_links(estimate.doubtful)
            self._curvature = self._learn_curvature(estimate.plant)
            self._raw, self._gapless, self.work_left = None, None, budget.left
            filtered.forget_scores()

    def _is_learned_in_blocks(self, record):
        """Learn a plant of many units in blocks; False for others, with all they ask for."""
        if len(record.names) <= LARGE:
            return False
        from .sparse.server import asks_for_the_whole, learn_large, warn_of_work  # for plants of many units

        record = self._with_knowledge(record)
        self.noise_share_ = self.filter_noise_share_ = self._gapless = self._raw = None
        self.filled_, self._drifting, self.work_left = False, (), self.max_time
        with few_threads(record.partition.n_states):
            reason = asks_for_the_whole(record, self) or learn_large(self, record)
            if reason:
                warn_of_work(record, reason)
                return False
            A, slices = self.unshrunk_transition_, self.state_slices_
            self._drifting = drifting_units(A, slices, self.n_samples_, in_blocks=True)
            warn_of_drift(self._drifting)
            self._qualify_links(None)
            record.forget_scores()
        return True

    def _check_room(self, clients, n_samples, n_inputs=0):
        """Refuse a plant of many units that cannot fit into memory, before its units begin."""
        if len(clients) > LARGE:
            from .sparse.memory import check_inputs, check_memory, fewest_states  # for plants of many units
            from .sparse.server import settings_for_the_whole

            size = len(clients), sum(map(fewest_states, clients.values()))
            if n_inputs and (self.sampled == "before" or settings_for_the_whole(self)):
                check_inputs(*size, n_inputs)
                n_inputs = 0
            check_memory(*size, n_samples, n_inputs=n_inputs)

    def _next_budget(self):
        """The work of this round: an equal part of what is left for all of them."""
        whole, n_left = self.__dict__.pop("_whole", None) or (Budget(self.max_time), 1)
        self.clock = whole
        if n_left < 2:
            return whole
        self._whole = whole, n_left - 1
        return whole.part(1 / n_left)

    def _first_estimate(self, record, messages, settings):
        """Estimate of a plant of one lag; that of the rounds, if they ended with the same messages."""
        (known, estimate), self._of_rounds = getattr(self, "_of_rounds", (None, None)), (None, None)
        if estimate is not None and known is messages:
            return estimate
        return estimate_plant(record, settings)

    def _estimate(self, record, messages, settings, budget):
        """Estimate of a plant of one lag: without time for the exact likelihood of gaps, by that of scores alone."""
        estimate = self._first_estimate(record, messages, settings)
        is_late = settings.budget.is_spent and may_stand_in(record, settings) and not estimate.plant.scores_suffice
        if is_late:
            again = settings._replace(budget=budget.part(_ONE_LAG), scores_alone=True)
            estimate = estimate_plant(record, again)
        self.filled_ = estimate.plant.stands_in and not estimate.plant.loses_little
        return estimate

    def _outdone(self, record, messages, settings, budget):
        """The plant after the first stage of a search that responses make needless, or None."""
        is_plain = not self.fix_local and self.sampled != "before" and settings.known_links is None
        if not (self.yields_to_responses and is_plain and record.u is not None and messages is not None):
            return None
        from .responses.early import outdone_plant  # for plants that are asked what inputs do

        return outdone_plant(record, messages, settings, budget)

    def _settings(self, names, messages=None):
        """How a plant of these messages is estimated, or of a record that none were kept of."""
        local: list[tuple | None] = []
        for name in names:
            if messages is None:
                local.append(None)
                continue
            A, Q, B = (getattr(messages[name], x) for x in ("transition", "process_cov", "input_matrix"))
            is_known = A is not None and Q is not None
            if self.fix_local and not is_known:
                raise ValueError(f"fix_local=True needs the own model of unit {name!r}, which it did not send.")
            local.append((A, Q, B) if is_known else None)
        own = {name: value for name, value in self.get_params(deep=False).items() if name in Settings._fields}
        own["known_links"], own["correction"] = self._knowledge(names), self._correction_of(names)
        if self._are_shared and sum(message.z.shape[1] for message in (messages or {}).values()) <= FEW:
            own["sparsity"] = None  # a search would be among links of what is one and the same
        return Settings(tuple(local), time_domain=self.likelihood == "time-domain", **own)

    def _keep(self, record, estimate, settings):
        """Keep the estimate of a plant; the record with the noise that its filter supposes."""
        if self.noise_share_ is not None:
            self.filter_noise_share_, estimate = choose_filter(record, estimate, settings)
            record = record.with_noise_share(self.filter_noise_share_)
        partition, self._lagged = record.partition, None
        self.partition_ = partition
        self.names_, self.n_samples_ = record.names, record.n_samples
        self.state_slices_ = dict(zip(record.names, partition.slices, strict=True))
        self.transition_, self.unshrunk_transition_ = estimate.shrunk_A, estimate.A
        self.process_cov_ = estimate.Q
        self.input_slices_ = dict(zip(record.names, partition.input_slices, strict=True))
        self.input_, self.unshrunk_input_ = estimate.shrunk_B, estimate.B
        self.input_level_ = record.input_level
        self.coefficients_, self._parameters = estimate.coefficients, estimate.parameters
        is_exact = self.likelihood == "time-domain" or not estimate.plant.scores_suffice
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
        self.hidden_causes_ = None
        self.controlled_units_, self._run = (), None
        if record.partition.n_inputs:
            self.excitation_ = excitation_table(record, self.coefficients_.regressors)
            self._look_for_feedback(record)

    def _look_for_feedback(self, record):
        """Test whether inputs depend on what the plant does not expect of the measurements."""
        if record.partition.n_inputs:
            from .estimation.hidden_causes import held_variances, hidden_cause_table  # for plants with inputs

            run = self._run = self._filter(self._operating_point.placed(record))
            sums = input_sums(record, run.updates)
            self.feedback_ = feedback_table(record, run.updates, sums)
            self.hidden_causes_ = hidden_cause_table(record, run.updates, sums)
            self.held_variances_ = held_variances(record.u, record.starts)
            self.controlled_units_ = controlled_units(self.feedback_, self.names_)
            self.has_feedback_ = bool(self.controlled_units_)

    def _say_how_it_ended(self, budget):
        """Warn of a climb that ended early and of units that cannot be told from random walks."""
        if self.filled_:
            warn_of_filled_gaps(self.n_samples_, self.max_time)
        elif not self._is_outdone:  # else nobody will miss what the search would have found
            if budget.is_spent or budget.short_of:
                warn_of_budget(budget, self.max_time, f"The search for {' and '.join(budget.short_of) or 'links'}")
            elif not self.converged_:
                warn_of_climb(self.n_iter_, self.gradient_norm_, self.tol)
        self._drifting = drifting_units(self.unshrunk_transition_, self.state_slices_, self.n_samples_)
        warn_of_drift(self._drifting)

    def _free_lags(self, record, estimate, settings, budget):
        """Test whether one lag is enough, and learn a plant of several lags if it is not."""
        self.lag_transitions_, self.lag_inputs_ = self.transition_[None], self.input_[None]
        self.input_at_once_ = np.zeros_like(self.input_)
        self.misfit_ = misfit_table(self.names_, None)
        at_once = bool(self.partition_.n_inputs and self.sampled != "auto" and "before" in self._words())
        later = settings.known_links is not None and settings.known_links.needs_lags
        if self._is_outdone:
            return
        if self.covariance != "information" or self.likelihood != "whittle" or self.fix_local:
            if at_once:
                refuse_at_once(self.names_, self.sampled, "with this `covariance`, `likelihood` or `fix_local`")
            if later:
                refuse_delays("with this `covariance`, `likelihood` or `fix_local`")
            return
        if not record.tells_lags:
            if later:
                refuse_delays("from sums of products")
            return
        if not (record.is_constant or estimate.plant.scores_suffice):
            estimate = self._filled(record, settings)
        elif self.noise_share_ and not estimate.plant.has_clear_scores:  # too little is left of them to test anything
            estimate = estimate_plant(self._raw, settings)
        is_told = estimate is not None and not budget.stopped_by_clock
        found = lag_tests(estimate.plant, estimate.scoring) if is_told else None
        self.misfit_ = misfit_table(self.names_, None if found is None else found.p_values)
        is_backed = self.has_prior_ and self.level_shifts_.empty
        level = level_of(has_gaps=not record.is_constant, is_backed=is_backed)
        is_enough = one_lag_is_enough(self.misfit_, level)
        if at_once and (estimate is None or not estimate.plant.determined.all()):
            where = "where the sensors of a unit do not determine its states in most rows"
            refuse_at_once(self.names_, self.sampled, where)
        if later and (estimate is None or not self.frees_lags):
            refuse_delays("from a record in which units are mostly silent, or by this server")
        if not self.frees_lags or (is_enough and not (at_once or later or self._acts_at_once(estimate))):
            return
        if not (self._is_settled or at_once or later):  # what one lag does not tell in time several do not either
            return
        from .lagged.learning import Search  # for records that ask for it

        words = tuple(self._words())
        if not self.partition_.n_inputs:
            budget = self._part_for_lags(budget)
        about = self._operating_point, settings, budget, words, self.noise_share_
        search = Search(self._raw, record, estimate, *about, latest=(0, 0) if found is None else found.latest)
        lagged = search.learned()
        if search.share is not None:
            self.noise_share_ = self.filter_noise_share_ = search.share
            self.information_ = self._raw.with_noise_share(search.share).mean_information()
        if budget.is_spent:
            warn_of_budget(budget, self.max_time, "The search for a plant of several lags")
        is_certain = lagged is not None and (lagged.converged or (later and settings.known_links.requires_lags))
        is_open = lagged is not None and not (is_certain or budget.stopped_by_clock)
        if is_certain or (is_open and search.is_likelier(lagged, super()._filter)):
            self._keep_lags(record, lagged)

    @staticmethod
    def _part_for_lags(budget):
        """The part of a budget in which several lags are learned, or will hardly ever be."""
        anyway = max(_LAGS_ANYWAY * budget.max_time, min(_LAGS_SECONDS, _LAGS_SHARE * budget.max_time))
        wanted = max(_LAGS * (budget.max_time - budget.left), anyway)
        return budget.part(min(wanted / budget.left, 1.0)) if budget.left else budget

    def _words(self):
        """What is said of the timing of every input."""
        sizes = [rows.stop - rows.start for rows in self.partition_.input_slices]
        return words_by_input(self.sampled, self.names_, sizes)

    def _acts_at_once(self, estimate):
        """Whether some input acts in the row it is recorded in."""
        if estimate is None or not self.partition_.n_inputs or not estimate.plant.determined.all():
            return False
        from .lagged.stage import timing_of

        return bool((timing_of(estimate.plant, self._words())[0] == 0).any())

    def _filled(self, record, settings):
        """Estimate from a record whose gaps are filled as the plant expects; None without a full picture."""
        if not is_mostly_there(record):
            return None
        drive = self._drive(self.unshrunk_transition_, self.unshrunk_input_)
        placed = self._operating_point.placed(record)
        states, _ = smooth_plant(self.unshrunk_transition_, self.process_cov_, placed, drive)
        return estimate_plant(filled_record(record, states), settings)

    def _learn_curvature(self, plant):
        """What inputs do beyond what is linear; None for plants without inputs or whose states are not all seen."""
        if not self.partition_.n_inputs or self._is_outdone:
            return None
        if self._lagged is not None:
            return self._lagged.curvature
        if not plant.scores_suffice:
            return None
        from .lagged.stage import curvature_of_one_lag

        return curvature_of_one_lag(plant, self.transition_, self.input_, self.process_cov_)

    def _keep_lags(self, record, lagged):
        """Keep a plant of several lags: its first ones where those of one lag were."""
        from .lagged.tables import lagged_links_table

        self._lagged, dynamics = lagged, lagged.dynamics
        self.coefficients_ = None
        self.transition_ = self.unshrunk_transition_ = dynamics.A[0]
        self.process_cov_, self._run = dynamics.Q, None
        self.input_ = self.unshrunk_input_ = dynamics.B[1]
        self.lag_transitions_, self.lag_inputs_, self.input_at_once_ = dynamics.A, dynamics.B[1:], dynamics.B[0]
        self._operating_point = self._operating_point.moved(record, lagged.steps, lagged.new_levels)
        if lagged.shrunk_by < 1:
            warn_of_border(lagged.shrunk_by)
        self._look_for_feedback(record.at_hand)
        levels = {"alpha": self.alpha, "margin": self.margin}
        geweke = dynamics.geweke(self.information_, self.partition_) if dynamics.is_small else None
        self.links_ = self._told(lagged_links_table(self.names_, self.partition_, lagged, geweke, **levels))

    # -- rounds ----------------------------------------------------------------------------------

    def _first_request(self, inputs):
        request = super()._first_request(inputs)
        if self.n_rounds == "auto":
            return replace(request, own_past=True, refine=True)
        if self.n_rounds != 1:
            return request
        return replace(request, own_past=True, sharp=not inputs, sketch=None if inputs or self.fix_local else True)

    def _rounds(self, came):
        """Learn from the first answers that came and from those of further rounds; the messages that were used."""
        self._validate_params()
        n_more = 0
        if any(message.sketch is not None for message in came.values()):
            from .orders import with_shared_sensors  # for units whose states leave more than noise

            grown = yield from with_shared_sensors(came)
            n_more, came = int(grown is not came), grown
        self._are_shared = bool(n_more)
        if self.n_rounds != "auto":
            self._whole = Budget(self.max_time), self.n_rounds
            messages = yield from super()._rounds(came)
            self.n_rounds_ = self.n_rounds + n_more
            return messages
        messages, n_rounds = dict(came), 1
        if len(messages) <= LARGE and any(message.rest is not None for message in messages.values()):
            from .rounds import further_rounds  # for units whose own models leave something

            settings, whole = self._settings(tuple(messages), messages), Budget(self.max_time)
            settings, self._whole = settings._replace(budget=whole.part(_ONE_LAG)), (whole, 1)
            messages, came, n_rounds, estimate = yield from further_rounds(came, settings, whole)
            self._of_rounds = messages if n_rounds == 1 else None, estimate
        messages = self._learned_from(messages, came)
        self.n_rounds_ = n_rounds + n_more
        return messages

    # -- the plant over a record -----------------------------------------------------------------

    def filter(self, messages):
        """Filter of the whole plant over a record; units that say so are predicted on their own.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        PlantFilter
        """
        run = super().filter(messages)
        alone = tuple(name for name in self.names_ if messages[name].alone)
        tails = self._tails if alone == self.alone_ else None  # those given the units on their own
        return run.told(positions_of(alone, self.state_slices_), tails)

    def _record(self, messages):
        """Record of the units of `fit`, with their inputs and shifts."""
        record = self._with_knowledge(super()._record(messages))
        if self.filter_noise_share_:
            record = record.with_noise_share(self.filter_noise_share_)
        return self._operating_point.placed(record)

    def _drive(self, A, B):
        return self._operating_point.drive(A, B)

    def _filter(self, record):
        """Filter over a record, for the record of `fit` the one that it has been through, once."""
        run, self._run = self._run, None
        if run is not None and run.is_about(record):
            return run
        if self._lagged is not None:
            return self._lagged.dynamics.filter(record, self._operating_point)
        if self._large is not None and record.is_constant and record.determined.all():
            from .sparse.filter import LargeFilter

            return LargeFilter(self._large, record, self._drive(self.transition_, self.input_))
        if self._is_large_with_gaps(record):
            from .sparse.gaps import LargeFilterWithGaps

            return LargeFilterWithGaps(self._large, record, self._drive(self.transition_, self.input_))
        return super()._filter(record)

    def _is_large_with_gaps(self, record):
        """Whether a record has gaps that the filter of a plant learned in blocks goes through."""
        if self._large is None or record.is_constant:
            return False
        from .sparse.gaps import are_stable_alone

        return are_stable_alone(self._large.A, self.partition_)

    def smoothed(self, messages):
        """Each unit's own states given all units' messages, under the plant before shrinkage."""
        return self._smoothed(messages, self.unshrunk_transition_, self.unshrunk_input_)

    def _smooth(self, messages, A, B, **settings):
        if self._large is not None and self._is_large_with_gaps(record := self._record(messages)):
            from .sparse.gaps import LargeFilterWithGaps

            return LargeFilterWithGaps(self._large._replace(A=A), record, self._drive(A, B)).smoothed(**settings)
        if self._lagged is None:
            return super()._smooth(messages, A, B, **settings)
        return self._lagged.dynamics.smooth(self._record(messages), self._operating_point, **settings)

    def _cross_terms(self, record, foreign, run):
        self._tails = run.told(positions_of(self.alone_, self.state_slices_), None).heavy_tails
        if self._lagged is None:
            return super()._cross_terms(record, foreign, run)
        from .lagged.answers import cross_terms

        return cross_terms(self._lagged.dynamics, record.partition, run, self._operating_point)

    def replies(self, messages):
        """Reply to each unit: its own part of the plant and the other units' influence on its states."""
        replies = super().replies(messages)
        if self._lagged is not None:
            from .lagged.answers import with_all_lags

            replies = with_all_lags(self._lagged.dynamics, self.partition_, replies, self.input_level_)
        for name in self.alone_:
            replies[name] = replace(replies[name], alone=True)
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

    def effects(self, change, *, held=None, before=None):
        """Effect of a change of inputs on the states of every unit.

        Parameters
        ----------
        change : ndarray of shape (n_steps, k)
            Change of all inputs at each step.
        held : ndarray of bool, shape (k,), default=None
            Inputs that no controller moves; the known controllers of the others respond. None holds all.
        before : ndarray of shape (n_before + n_steps, k), default=None
            Inputs less `input_level_` to which the change is made, rows before it first. None: their level.

        Returns
        -------
        dict of str to EffectReply
            Row j is the effect one step after row j of `change`. The effect uses `transition_` and `input_`;
            its covariance is that of the estimate before shrinkage, given the selected links and laws. What
            links that were not selected add to the effect is added as a standard error too: the data speak
            for their absence, and a band must not contradict that. Where a run of the record under its
            inputs misses what quadratic forms of states and inputs explain, these move the effect, and the
            error that they leave is part of the covariance.
        """
        gains = None if held is None else gains_of(self.laws_, self.state_slices_, self.input_slices_, held)
        if self._lagged is not None:
            from .lagged.answers import effects as effects_over_lags

            return effects_over_lags(self._lagged, self.state_slices_, change, gains, before)
        plant = self.transition_, self.input_
        unshrunk = self.unshrunk_transition_, self.unshrunk_input_
        replies = effects(plant, unshrunk, self.coefficients_, self.state_slices_, change, gains)
        if self._curvature is None:
            return replies
        from .lagged.answers import with_curvature

        return with_curvature(replies, self._curvature, self.state_slices_, change, before)


def _work_beside(record):
    """Operations of what a fit does besides searching, about: units' own models, held-out gains, covariances, checks.

    Measured on plants of 28 to 61 states.
    """
    T, n = record.n_samples, record.partition.n_states
    return 3e7 * len(record.names) + (4e3 + 60 * n) * n * T + 1e6 * n**2
