"""A fit of the plant of a joint record: how it is set, what it goes through, what it leaves and says."""

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from ..arguments import warn
from ..bases import ParameterGroup, settings_by_name
from ..statespace.matrices import few_threads
from .dynamics import OperatingPoint, Plant
from .effects import DrawnErrors, ErrorsOfOneLag
from .estimation.estimate import FEW, LARGE, Climb, Settings, estimate_plant, may_stand_in
from .estimation.input_checks import (
    check_independent,
    controlled_units,
    excitation_table,
    feedback_table,
    held_variances,
    hidden_cause_table,
    input_sums,
)
from .estimation.noise_share import choose_filter, choose_noise_share
from .joint import JointRecord
from .lagged.misfit import filled_record, is_mostly_there, lag_tests, level_of, misfit_table, one_lag_is_enough
from .lagged.stage import Search, curvature_of, natural_scores, refuse_at_once, refuse_delays, timing_of, words_by_input
from .links.engines import OneLag
from .links.tables import UNDIRECTED, correlation_table
from .tuning import TUNING

# What a fit says to whoever called it, once a plant was learned.


def drifting_units(transition, slices, n_samples, *, in_blocks=False):
    """Units whose states cannot be told from random walks, of the plant or, in blocks, of each on its own."""
    if in_blocks:
        blocks = {name: transition[rows, rows] for name, rows in slices.items()}
        return tuple(name for name, A in blocks.items() if _is_drift(np.linalg.eigvals(A), n_samples).any())
    values, modes = np.linalg.eig(transition)
    carriers = {int(np.abs(mode).argmax()) for mode in modes.T[_is_drift(values, n_samples)]}
    return tuple(name for name, rows in slices.items() if carriers.intersection(range(rows.start, rows.stop)))


def _is_drift(values, n_samples):
    """Which eigenvalues of a plant cannot be told from those of a random walk."""
    return np.abs(values) > max(1 - TUNING.warned_drift / n_samples, TUNING.warned_slow)


def warn_of_drift(drifting):
    """Say which units drift, of whose links to each other nothing is said."""
    if drifting:
        warn(
            f"Units whose states drift like a random walk within this record: {', '.join(drifting)}. "
            "Units that drift on their own seem to influence each other: nothing is said of links between them "
            '("cannot tell"). Give differences or detrended '
            "measurements, or a record that is long compared with the drift.",
        )


def warn_of_filled_gaps(n_samples, max_time):
    """Say that a record was too long for the exact likelihood of its gaps."""
    warn(
        f"The exact likelihood of {n_samples} rows with gaps takes longer than "
        f"max_time={max_time:g}: the links were learned from what each row says by itself, with equal weight for all "
        "rows, which finds slightly less. Raise max_time for the exact one.",
    )


def warn_of_rounds(number):
    """Say that further rounds would have made it worse."""
    warn(
        f"What the plant of round {number} expects of the states has no covariance, as where a few rows are far "
        "from all others: the units' sensors were not estimated again. Leave such rows out.",
    )


def warn_of_climb(n_iter, gradient_norm, tol):
    """Say how far from the maximum a climb ended."""
    left = f"its gradient per time step has length {gradient_norm:.2e} (tol={tol:.0e})"
    if gradient_norm <= tol:
        left = "links still came and went"
    warn(
        f"The likelihood did not converge: after {n_iter} iterations {left}. Raise max_iter or "
        "max_time, give fewer states or more data; far from the maximum no link can be decided.",
        ConvergenceWarning,
    )


def warn_of_budget(budget, max_time, what):
    """Say that the work was ended, and whether another run may end elsewhere."""
    clock = " The clock stopped it: another run may end elsewhere." * budget.stopped_by_clock
    warn(
        f"{what} was ended after {budget.max_time:.3g} s of computing (max_time={max_time:.3g} in all): this is "
        f"the best plant so far. Raise max_time, or give fewer units or states.{clock}",
        ConvergenceWarning,
    )


def warn_of_border(shrunk_by):
    """Say that the poles of a plant of several lags were brought in."""
    warn(
        "The plant of several lags that fits the record best is at the border of stability; its "
        f"poles were brought in by a factor {shrunk_by:.6f}. Long free runs depend on it.",
    )


# A fit of the plant of a joint record: how it is set, what it goes through, and what it leaves at the server.

_SETTLED = 0.5  # standard errors to the maximum, from which on nothing is said of links
ONE_LAG = 0.4  # share of what is left of a budget that the plant of one lag may take
# times the work of one lag, share of the budget, and seconds up to another one, that several lags may take without
# inputs: searches that end take up to 3 times as much, those that do not 17 to 55 times
_LAGS, _LAGS_ANYWAY, _LAGS_SECONDS, _LAGS_SHARE = 6.0, 0.12, 3.0, 0.3


# -- how it is set -------------------------------------------------------------------------------------------


def correction_of(server, names):
    """What p-values of a plant of these units are adjusted for."""
    if server.correction != "auto":
        return server.correction
    return "fdr" if len(names) > LARGE else "family-wise"


def knowledge_of(server, names):
    """What is known of links beforehand, a `LinkKnowledge` or None."""
    given = server.forbidden, server.required, server.delays
    if all(each is None for each in given):
        return None
    from .knowledge import read_knowledge  # for those who know something

    return read_knowledge(names, *given)


def with_knowledge(server, record):
    """The record with what is known of its plant."""
    known = knowledge_of(server, record.names)
    return record if known is None else replace(record, known_links=known)


def settings_of(server, names, messages=None):
    """The `Settings` that a plant of these messages is estimated with, or of a record that none were kept of."""
    local: list[tuple | None] = [None] * len(names)
    for k, name in enumerate(names if messages is not None else ()):
        A, Q, B = (getattr(messages[name], x) for x in ("transition", "process_cov", "input_matrix"))
        if A is not None and Q is not None:
            local[k] = A, Q, B
        elif server.fix_local:
            raise ValueError(f"fix_local=True needs the own model of unit {name!r}, which it did not send.")
    own = {name: value for name, value in settings_by_name(server).items() if name in Settings.__dataclass_fields__}
    own["known_links"], own["correction"] = knowledge_of(server, names), correction_of(server, names)
    if server.shares_sensors and sum(message.z.shape[1] for message in (messages or {}).values()) <= FEW:
        own["sparsity"] = None  # a search would be among links of what is one and the same
    return Settings(tuple(local), time_domain=server.likelihood == "time-domain", **own)


def checked_record(messages):
    """The joint record of messages; says which units send the same, and refuses inputs that do."""
    record = JointRecord.from_messages(messages)
    for first, second in record.copies():
        warn(
            f"Units {first!r} and {second!r} send the same states: one unit under two names? Links of both are "
            "shared out between them at will. Leave one out.",
        )
    if record.u is not None:
        u = record.standard_known.series
        check_independent(u.T @ u / len(u))
    return record


def work_beside(record):
    """Operations of what a fit does besides searching, about: units' own models, held-out gains, covariances, checks.

    Measured on plants of 28 to 61 states.
    """
    T, n = record.n_samples, record.partition.n_states
    return 3e7 * len(record.names) + (4e3 + 60 * n) * n * T + 1e6 * n**2


# -- what it leaves at the server ----------------------------------------------------------------------------


class Learned(NamedTuple):
    """A plant that was learned, by whatever engine, and what is known of how."""

    plant: Plant  # around its operating point, with the scale of its states
    unshrunk: tuple[np.ndarray, np.ndarray]  # (n, n) and (n, k), the first lag before shrinkage
    climb: Climb
    correlations: Any = None  # table of pairs of units whose noise goes together, None for no such pairs
    level_shifts: Any = None  # table of shifts, None for none
    coefficients: Any = None  # `Coefficients` of a plant with inputs
    likelihood: str = "whittle"


def keep(server, record, learned):
    """Set what a fit leaves behind; the record is the one that the plant is about."""
    partition = server.partition_ = record.partition
    server.names_, server.n_samples_ = record.names, record.n_samples
    server.state_slices_ = dict(zip(record.names, partition.slices, strict=True))
    server.input_slices_ = dict(zip(record.names, partition.input_slices, strict=True))
    server.input_level_ = record.input_level
    server.information_ = record.mean_information()
    server.plant_ = learned.plant
    server.unshrunk_transition_, server.unshrunk_input_ = learned.unshrunk
    server.coefficients_, server.errors_ = learned.coefficients, ErrorsOfOneLag(learned.coefficients)
    server.curvature_ = None
    vars(server).pop("curved_", None)  # of a fit before
    server.likelihood_ = learned.likelihood
    nothing = pd.DataFrame(columns=["unit", "start", "size", "statistic", "p_value"])
    server.level_shifts_ = nothing if learned.level_shifts is None else learned.level_shifts
    nothing = pd.DataFrame(columns=["first", "second", "correlation", "statistic", "p_value", *UNDIRECTED])
    server.correlated_pairs_ = nothing if learned.correlations is None else learned.correlations
    server.n_iter_, server.converged_, server.gradient_norm_, server.has_prior_, server.prior_weight_ = learned.climb
    # the gradient is a distance to the maximum, in standard errors of one row
    server.is_settled_ = server.converged_ or server.gradient_norm_ * np.sqrt(record.n_samples) < _SETTLED
    server.n_absent_, server.doubtful_pairs_ = 0, None
    server.correction_ = correction_of(server, record.names)


def look_at_inputs(server, record):
    """Find out whether inputs are excited and follow measurements; the filter that told, None without inputs."""
    server.feedback_ = server.excitation_ = server.hidden_causes_ = None
    server.has_feedback_, server.laws_, server.controlled_units_ = False, {}, ()
    if not record.partition.n_inputs:
        return None
    server.excitation_ = excitation_table(record, server.coefficients_.regressors)
    return look_for_feedback(server, record)


def look_for_feedback(server, record):
    """Test whether inputs depend on what the plant does not expect of the measurements; the filter that told."""
    run = server.plant_.run(server.plant_.point.placed(record))
    sums = input_sums(record, run.updates)
    server.feedback_ = feedback_table(record, run.updates, sums)
    server.hidden_causes_ = hidden_cause_table(record, run.updates, sums)
    server.held_variances_ = held_variances(record.u, record.starts)
    server.controlled_units_ = controlled_units(server.feedback_, record.names)
    server.has_feedback_ = bool(server.controlled_units_)
    return run


def look_for_drift(server, *, in_blocks=False):
    """Find units that cannot be told from random walks, and say which they are."""
    about = server.unshrunk_transition_, server.state_slices_, server.n_samples_
    server.drifting_units_ = drifting_units(*about, in_blocks=in_blocks)
    warn_of_drift(server.drifting_units_)


# -- what it goes through ------------------------------------------------------------------------------------


@dataclass
class Fit:
    """The fit of a `LikelihoodServer` to a record as a whole while it goes on."""

    server: Any
    record: Any  # JointRecord with the noise that units suppose
    messages: Any  # by unit, None for sums
    budget: Any  # of the whole
    first: Any = None  # estimate of a plant of one lag that is known, None for none
    run: Any = field(default=None, init=False)  # the filter over the record of the fit, where it went through

    def __post_init__(self):
        self.settings = self.record.adapted(settings_of(self.server, self.record.names, self.messages))
        self.record = with_knowledge(self.server, self.record)
        if self.record.known_links is not None:
            self.record.known_links.check_length(self.record)

    def learn(self):
        """Learn the plant and leave it at the server."""
        server, record, budget = self.server, self.record, self.budget
        budget.leave(work_beside(record))
        server.noise_share_ = server.filter_noise_share_ = None
        server.filled_ = False
        with few_threads(record.partition.n_states):
            settings = self._with_part()
            estimate = self._outdone(settings)
            server.outdone_ = estimate is not None
            if estimate is None and server.horizon > 1 and record.has_choice and record.u is not None:
                server.noise_share_, estimate = choose_noise_share(record, settings, server.horizon)
            elif estimate is None:
                estimate = self._of_one_lag(settings)
            filtered = self._kept(estimate)
            self.run = look_at_inputs(server, filtered.at_hand)
            if server.has_feedback_ and not server.outdone_:
                noisy = record.with_noise_share(server.noise_share_ or 0.0)
                estimate = estimate_plant(noisy, replace(self._with_part(), feedback=True))
                self._kept(estimate)
                self.run = None
            self._say_how_it_ended(settings.budget)
            server.engine_ = OneLag.of(record.known_links, record.partition, estimate)
            server.doubtful_pairs_ = estimate.doubtful
            lagged = self._of_several_lags(filtered, estimate)
            server.curvature_ = self._curvature(estimate.plant) if lagged is None else lagged.curvature
            if server.partition_.n_inputs and not (server.outdone_ or server.has_feedback_):
                curved = self._curved(estimate.plant)
                if curved is not None:
                    server.curved_ = curved
            server.work_left = budget.left
            filtered.forget_scores()

    def _with_part(self):
        """The settings with the part of what is left of the budget that a plant of one lag may take."""
        return replace(self.settings, budget=self.budget.part(ONE_LAG))

    def _outdone(self, settings):
        """The plant after the first stage of a search that responses make needless, or None."""
        server, record = self.server, self.record
        is_plain = not server.fix_local and server.sampled != "before" and settings.known_links is None
        if not (server.yields_to_responses and is_plain and record.u is not None and self.messages is not None):
            return None
        from .responses.choice import outdone_plant  # for plants that are asked what inputs do

        may_act = np.array([word != "after" for word in timing_words(server, record)])
        return outdone_plant(record, self.messages, settings, self.budget, may_act)

    def _of_one_lag(self, settings):
        """Estimate of a plant of one lag: without time for the exact likelihood of gaps, by that of scores alone."""
        estimate = estimate_plant(self.record, settings) if self.first is None else self.first
        is_spent = settings.budget.is_spent
        if is_spent and may_stand_in(self.record, settings) and not estimate.plant.scores_suffice:
            estimate = estimate_plant(self.record, replace(self._with_part(), scores_alone=True))
        self.server.filled_ = estimate.plant.stands_in and not estimate.plant.loses_little
        return estimate

    def _kept(self, estimate):
        """Keep the estimate of a plant; the record with the noise that its filter supposes."""
        server, record = self.server, self.record
        if server.noise_share_ is not None:
            settings = replace(self.settings, budget=self.budget.part(TUNING.fitting_filter))
            server.filter_noise_share_, estimate = choose_filter(record, estimate, settings)
            record = record.with_noise_share(server.filter_noise_share_)
        scale = estimate.parameters.state_scale
        point = OperatingPoint.of(record, estimate.A, estimate.steps, estimate.levels, scale)
        shrunk = estimate.shrunk_A, estimate.shrunk_B, estimate.Q
        is_exact = server.likelihood == "time-domain" or not estimate.plant.scores_suffice
        learned = Learned(
            Plant.of_one_lag(*shrunk, point=point, scale=scale),
            (estimate.A, estimate.B),
            estimate.climb,
            correlation_table(record.names, estimate),
            estimate.shifts.table,
            estimate.coefficients,
            "time-domain" if is_exact else "whittle",
        )
        keep(server, record, learned)
        return record

    def _say_how_it_ended(self, budget):
        """Warn of a climb that ended early and of units that cannot be told from random walks."""
        server = self.server
        if server.filled_:
            warn_of_filled_gaps(server.n_samples_, server.max_time)
        elif not server.outdone_:  # else nobody will miss what the search would have found
            if budget.is_spent or budget.short_of:
                short_of = " and ".join(budget.short_of) or "links"
                warn_of_budget(budget, server.max_time, f"The search for {short_of}")
            elif not server.converged_:
                warn_of_climb(server.n_iter_, server.gradient_norm_, server.tol)
        look_for_drift(server)

    def _curvature(self, plant):
        """What inputs do beyond what is linear; None for plants without inputs or whose states are not all seen."""
        server = self.server
        if not server.partition_.n_inputs or server.outdone_ or not plant.scores_suffice:
            return None
        return curvature_of(plant, Plant.of_one_lag(server.transition_, server.input_, server.process_cov_))

    def _curved(self, plant):
        """The plant by curves; None where lines are enough, or not all states are seen."""
        if not plant.scores_suffice or not plant.determined.all():
            return None
        from .curved import curved_plant

        noise = np.linalg.inv(self.server.information_)
        h, u, starts = natural_scores(plant)
        return curved_plant(h, u, starts, noise, self.server.plant_.n_lags, self.server.acts_at_once)

    # -- several lags ----------------------------------------------------------------------------------------

    def _of_several_lags(self, record, estimate):
        """Test whether one lag is enough; the plant of several lags if it is not and one was kept, else None."""
        server, settings = self.server, self._with_part()
        budget = self.budget
        server.misfit_ = misfit_table(server.names_, None)
        has_inputs = bool(server.partition_.n_inputs)
        words = tuple(timing_words(server, record)) if has_inputs else ()
        at_once = server.sampled != "auto" and "before" in words
        later = settings.known_links is not None and settings.known_links.needs_lags
        if server.outdone_:
            return None
        if server.covariance != "information" or server.likelihood != "whittle" or server.fix_local:
            if at_once:
                refuse_at_once(server.names_, server.sampled, "with this `covariance`, `likelihood` or `fix_local`")
            if later:
                refuse_delays("with this `covariance`, `likelihood` or `fix_local`")
            return None
        if not record.tells_lags:
            if later:
                refuse_delays("from sums of products")
            return None
        if not (record.is_constant or estimate.plant.scores_suffice):
            estimate = self._filled(record, settings)
        elif server.noise_share_ and not estimate.plant.has_clear_scores:  # too little is left of them to test anything
            estimate = estimate_plant(self.record, settings)
        is_told = estimate is not None and not settings.budget.stopped_by_clock
        found = lag_tests(estimate.plant, estimate.scoring) if is_told else None
        server.misfit_ = misfit_table(server.names_, None if found is None else found.p_values)
        is_backed = server.has_prior_ and server.level_shifts_.empty
        is_enough = one_lag_is_enough(server.misfit_, level_of(has_gaps=not record.is_constant, is_backed=is_backed))
        is_seen = estimate is not None and estimate.plant.determined.all()
        if at_once and not is_seen:
            where = "where the sensors of a unit do not determine its states in most rows"
            refuse_at_once(server.names_, server.sampled, where)
        if later and (estimate is None or not server.frees_lags):
            refuse_delays("from a record in which units are mostly silent, or by this server")
        if not server.frees_lags or (
            is_enough and not (at_once or later or (has_inputs and is_seen and _acts_at_once(estimate, words)))
        ):
            return None
        if not (server.is_settled_ or at_once or later):  # what one lag does not tell in time several do not either
            return None
        if not has_inputs:
            budget = part_for_lags(budget)
        latest = (0, 0) if found is None else found.latest
        about = server.plant_.point, settings, budget, words, server.noise_share_
        search = Search(self.record, record, estimate, *about, latest=latest)
        lagged = search.learned()
        if search.share is not None:
            server.noise_share_ = server.filter_noise_share_ = search.share
            server.information_ = self.record.with_noise_share(search.share).mean_information()
        if budget.is_spent:
            warn_of_budget(budget, server.max_time, "The search for a plant of several lags")
        is_certain = lagged is not None and (lagged.converged or (later and settings.known_links.requires_lags))
        is_open = lagged is not None and not (is_certain or budget.stopped_by_clock)
        if is_certain or (is_open and search.is_likelier(lagged, server.plant_.run)):
            self._keep_lags(record, lagged)
            return lagged
        return None

    def _filled(self, record, settings):
        """Estimate from a record whose gaps are filled as the plant expects; None without a full picture."""
        if not is_mostly_there(record):
            return None
        plant = self.server.unshrunk_plant_
        return estimate_plant(filled_record(record, plant.smooth(plant.point.placed(record))[0]), settings)

    def _keep_lags(self, record, lagged):
        """Keep a plant of several lags: its first ones where those of one lag were."""
        from .lagged.resampling import SeveralLags  # of records that ask for them

        server, before = self.server, self.server.plant_
        point = before.point.moved(record, lagged.steps, lagged.new_levels)
        plant = server.plant_ = replace(lagged.dynamics, point=point, scale=before.scale)
        server.unshrunk_transition_, server.unshrunk_input_ = plant.A[0], plant.B[1]
        server.coefficients_, server.errors_ = None, DrawnErrors(lagged.draws)
        server.is_settled_, server.engine_ = lagged.converged, SeveralLags.of(record.partition, lagged)
        if lagged.shrunk_by < 1:
            warn_of_border(lagged.shrunk_by)
        self.run = look_for_feedback(server, record.at_hand) if record.partition.n_inputs else None


def part_for_lags(budget):
    """The part of a budget in which several lags are learned, or will hardly ever be."""
    anyway = max(_LAGS_ANYWAY * budget.max_time, min(_LAGS_SECONDS, _LAGS_SHARE * budget.max_time))
    wanted = max(_LAGS * (budget.max_time - budget.left), anyway)
    return budget.part(min(wanted / budget.left, 1.0)) if budget.left else budget


def timing_words(server, record):
    """What is said of the timing of every input."""
    sizes = [rows.stop - rows.start for rows in record.partition.input_slices]
    return words_by_input(server.sampled, record.names, sizes)


def _acts_at_once(estimate, words):
    """Whether some input acts in the row it is recorded in."""
    return bool((timing_of(estimate.plant, words) == 0).any())


# What a plant is learned with beside the tests of its links: what is known beforehand, and how it is searched.


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Knowledge(ParameterGroup):
    """What is known of the links of a plant before it is learned.

    Parameters
    ----------
    forbidden, required : str, list, DataFrame or networkx.DiGraph, optional
        Links between states that are impossible, and that are certain: words such as ``"unit0 -> unit1"``, pairs
        (cause, effect), a table with columns ``cause`` and ``effect``, or a graph. A forbidden link is zero in every
        matrix and has the verdict "no influence"; a required one is never searched for nor dropped, and has the
        verdict "influence", whatever its p-value is.
    delays : dict, DataFrame or networkx.DiGraph, optional
        Rows after which a link may act, ``{"unit0 -> unit1": 3}`` or several of them, a table or edges with a
        ``delay``. At other lags it is zero; where one row is not among them a plant of several lags is learned.

    Examples
    --------
    >>> from skfedcausal import Knowledge, LikelihoodServer
    >>> LikelihoodServer(knowledge=Knowledge(forbidden="mill -> kiln"))
    LikelihoodServer(knowledge=Knowledge(forbidden='mill -> kiln'))
    """

    forbidden: Any = None
    required: Any = None
    delays: Any = None

    _parameter_constraints = dict.fromkeys(("forbidden", "required", "delays"), "no_validation")  # many forms


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class LikelihoodOptions(ParameterGroup):
    """How a :class:`~skfedcausal.LikelihoodServer` searches for links, asks units again and climbs.

    Parameters
    ----------
    fix_local : bool, default=False
        Keep the diagonal blocks at the units' own transition matrices (assumption 4.4 of [1]_) instead of
        re-estimating them, and how their inputs act on themselves where they know it. The units then send
        them along.
    sparsity : {"fdr", None}, default="fdr"
        "fdr" searches for links and for noise that units share with false discovery control and estimates
        only those; None estimates every block of both (plain maximum likelihood, no selection, no shrinkage).
    level_shifts : {"auto", None}, default="auto"
        "auto" looks for shifts of the operating point within an episode that nobody announced, which would
        otherwise be taken for links, and gives every unit that shifted a term of its own; None takes every
        unit's level as constant.
    margin : float, default=0.1
        Strength below which an influence counts as none in the verdicts.
    held_out : float, default=None
        Share of every episode, its last part, on which `fit` also measures what every unit gains from joining
        (`benefit_`): the plant, and every unit alone, are learned once more from the rest. For plants
        without inputs. None does not measure it.
    n_rounds : int or "auto", default=1
        Rounds of messages, beside the few sensors that units share. In every round after the first the units get their
        smoothed states back, re-estimate their sensors (loadings, noise, level) locally and send their message again:
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
    max_iter : int, default=300
        Iterations of the final climb.
    tol : float, default=1e-10
        Length of the gradient of the log-likelihood per time step, in the metric of its curvature, at which
        the climb has converged: the distance to the maximum in standard errors of a single time step.

    References
    ----------
    .. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent
           Clients with State Space Representation.

    Examples
    --------
    >>> from skfedcausal import LikelihoodOptions, LikelihoodServer
    >>> LikelihoodServer(options=LikelihoodOptions(n_rounds="auto")).set_params(options__sparsity=None).options
    LikelihoodOptions(n_rounds='auto', sparsity=None)
    """

    fix_local: bool = False
    sparsity: str | None = "fdr"
    level_shifts: str | None = "auto"
    margin: float = 0.1
    held_out: float | None = None
    n_rounds: Any = 1  # or "auto"
    horizon: int = 50
    max_iter: int = 300
    tol: float = 1e-10

    _parameter_constraints = {
        "fix_local": ["boolean"],
        "sparsity": [StrOptions({"fdr"}), None],
        "level_shifts": [StrOptions({"auto"}), None],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "held_out": [Interval(Real, 0, 1, closed="neither"), None],
        "n_rounds": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "horizon": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }
