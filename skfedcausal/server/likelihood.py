"""The default server: maximum likelihood of the coupled plant from one message per unit."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

from ..bases import N_JOBS, Grouped
from ..statespace.matrices import few_threads, keep_freed_memory
from .engines import PlantServer
from .estimation.covariance import COVARIANCES
from .estimation.estimate import LARGE
from .estimation.scoring import Budget
from .fitting import Fit, Knowledge, LikelihoodOptions, checked_record
from .lagged.stage import SAMPLED
from .links.questions import benefit
from .rounds import rounds_of

_QUESTIONS = ("bootstrap_links", "stable_links", "changed_links", "links_over_time", "benefit", "screen")


@dataclass(repr=False, eq=False, kw_only=True)
class LikelihoodServer(Grouped, PlantServer):
    """Maximum-likelihood estimate of the plant from the units' sufficient statistics.

    The messages ``z = C' R^-1 y`` and ``J = C' R^-1 C`` carry everything that the units' measurements say
    about the states, so the estimate equals that of a central machine with all raw data. Complete records
    are fitted through the Whittle likelihood, at a cost per iteration that does not depend on their
    length; records with missing measurements or absent units through the exact time-domain likelihood.
    Inputs that the units send along are regressors of the state equation, ``h[t] = A h[t-1] + B u[t-1] + w``.

    Parameters
    ----------
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
    sampled : {"auto", "after", "before"} or dict, default="auto"
        When inputs are set: "before" the row they are recorded in is measured, so that they may act in it, or
        "after". A dict has a word, or one for each input, by unit. "auto" is "before" only where the record
        says that an input acts at once and that no measurement acts on it: safe under feedback. "before"
        makes the plant one of several lags, and is refused where only one can be learned.
    likelihood : {"whittle", "time-domain"}, default="whittle"
        For complete records: "whittle" is fast, "time-domain" exact also at the ends of the record.
    knowledge : Knowledge, default=None
        Links that are impossible or certain, and rows after which they act, see
        :class:`~skfedcausal.Knowledge`.
    options : LikelihoodOptions, default=None
        The search, rounds of messages and the climb, see :class:`~skfedcausal.LikelihoodOptions`.
    covariance : {"information", "sandwich", "hac"}, default="information"
        Covariance of the estimates behind all tests, intervals and verdicts of links and the standard
        errors of answers. "information" is that of Gaussian noise of constant variance; "sandwich" holds
        for noise of any distribution whose variance may change with time [4]_, as long as innovations are
        unpredictable given the past; "hac" also where they are correlated over a few steps [5]_. Links are
        searched and shrunk by the information in any case.
    max_time : float, default=25.0
        Seconds of a processor that a fit may take. What it does besides searching (units' own models, held-out gains,
        checks) is deducted first, up to four fifths; two fifths of the rest are for the plant of one lag. They are
        counted in operations so that what is learned does not depend on the load; a processor clock stops what takes
        longer than counted. The best plant so far is kept, with a warning.
    n_jobs : int, default=None
        Processes, or workers of the backend of `joblib.parallel_config`, that plants of 128 units or more are
        learned with. None takes what is configured, one unless it is. The same bits come for any number.

    Attributes
    ----------
    plant_, links_, validity_, ...
        See :class:`~skfedcausal.server.engines.PlantServer`, and:
    filled_ : bool
        Whether Whittle's likelihood of what each row says by itself stands for the exact one where gaps take more than
        a twentieth of what the record tells, because that would have taken longer than `max_time`. Standard errors
        account for the rows that are lost by it.
    outdone_ : bool
        Whether the search for links ended after its first stage, without a warning, since responses clearly answer
        better what inputs do (only for estimators that have them, :doc:`/counterfactual`).
    n_rounds_ : int
        Rounds of messages that the plant was learned from.
    noise_share_ : float or None
        Share of noise with which the plant was learned: of the way from what those units suppose to all that
        their past leaves unpredicted. More than one where forecasts under the inputs ask for it, because
        disturbances last longer than the states can tell. None without a choice.
    filter_noise_share_ : float or None
        Share with which the learned plant follows measurements, the one that predicts a single step best;
        `process_cov_` is the most likely one for it and the coefficients as they are.

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

    alpha: float = 0.05
    correction: str = "auto"
    shrink: bool = True
    sampled: str | Mapping = "auto"
    likelihood: str = "whittle"
    covariance: str = "information"
    knowledge: Knowledge | None = None
    options: LikelihoodOptions | None = None
    max_time: float = 25.0
    n_jobs: int | None = None

    _moved = {
        **{name: f"skfedcausal.server.links.questions.{name}(server, messages)" for name in _QUESTIONS},
        "without_grades": "server.likelihood_links_",
        "take_laws": "server.laws_ = laws",
    }
    _parameter_constraints = {
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "correction": [StrOptions({"auto", "family-wise", "fdr"})],
        "shrink": ["boolean"],
        "sampled": [StrOptions(set(SAMPLED)), dict],
        "likelihood": [StrOptions({"whittle", "time-domain"})],
        "covariance": [StrOptions(set(COVARIANCES))],
        "knowledge": [Knowledge, None],
        "options": [LikelihoodOptions, None],
        "max_time": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": N_JOBS,
    }
    _groups = {"knowledge": Knowledge, "options": LikelihoodOptions}

    tests_links = True
    knows_curvature = True  # whether effects depend on the inputs that are changed
    frees_lags = True  # whether plants of several lags are learned where the record asks for them
    yields_to_responses = False  # whether a search for links ends where responses will answer what inputs do
    measures_benefit = True  # where `held_out` asks for it
    outdone_ = False
    work_left = 0.0  # seconds of `max_time` that the fit left
    shares_sensors = False  # whether sensors that several units read are states of theirs: their noise goes together

    @property
    def relays_inputs(self) -> bool:
        """Whether units are told inputs of others before they choose their order, which is a round more."""
        return self.n_rounds != 1

    @property
    def needs_local_model(self) -> bool:
        """Whether the units have to send their own transition matrix."""
        return self.fix_local

    @property
    def needs_replies(self) -> bool:
        """Whether a fit needs more than the first message of each unit; not where it may do without."""
        return self.n_rounds != "auto" and self.n_rounds > 1

    # -- fitting ---------------------------------------------------------------------------------

    def _fit(self, messages, budget=None, first=None):
        """Learn the plant in a round with a `budget`; `first` are messages with an estimate that is known already."""
        self._validate_params()
        keep_freed_memory()
        record = checked_record(messages)
        known = None if first is None or first[0] is not messages else first[1]
        with self._processes(len(messages)):
            self._learn(record, messages, budget, known)
            self.benefit_ = self.batches_ = None
            with few_threads(record.partition.n_states):
                self._leave_alone(messages)
                if self.held_out is not None and self.measures_benefit:
                    self.benefit_ = benefit(self, messages, held_out=self.held_out).by_unit()
        self._judge_later(messages)
        return self

    def _processes(self, n_units):
        """Processes for the whole of a fit of many units, the same ones where they began with the units."""
        if n_units <= LARGE:
            return nullcontext()
        from ..parallel import workers  # for plants of many units

        return workers(n_units, self.n_jobs)

    def partial_fit(self, messages: Any, *, continues: bool = False, forget: float | None = None) -> Self:
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
            Share of their weight that all earlier rows lose, 1 to start afresh; the batch then begins an episode.

        Returns
        -------
        LikelihoodServer
        """
        from .running import next_batch  # of records that go on

        self._validate_params()
        record, batches, messages = next_batch(self, messages, continues=continues, forget=forget)
        self._learn(record)
        self.batches_, self.benefit_, self.n_rounds_ = batches, None, 1
        self._leave_alone({})
        self._judge_later(messages)
        return self

    def _learn(self, record, messages=None, budget=None, first=None):
        """Learn the plant of a joint record, of which there may be no messages but sums.

        A `budget` is that of a round, and `first` an estimate of a plant of one lag that is known already.
        """
        if len(record.names) > LARGE:
            from .sparse.server import learned_in_blocks  # for plants of many units

            is_learned, self._run = learned_in_blocks(self, record)
            if is_learned:
                return
        fit = Fit(self, record, messages, Budget(self.max_time) if budget is None else budget, first)
        fit.learn()
        self._run = fit.run

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

    # -- rounds ----------------------------------------------------------------------------------

    def _first_request(self, inputs):
        self._validate_params()
        request = super()._first_request(inputs)
        if self.n_rounds == "auto":
            return replace(request, own_past=True, refine=True)
        if self.n_rounds != 1:
            return request
        return replace(request, own_past=True, sharp=not inputs, sketch=None if inputs or self.fix_local else True)

    def _rounds(self, came):
        """Learn from the first answers that came and from those of further rounds; the messages that were used."""
        self._validate_params()
        return rounds_of(self, came, self._learned_from)
