"""Federated root cause analysis: in which unit did a fault start."""

import secrets
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..arguments import Columns, Inputs, Lengths, Record, warn, weighted_mean
from ..bases import ParameterGroup, group_of
from ..client.baseline import Baseline
from ..client.units import randomised_flags, units_alone
from ..containers.arrays import listed
from ..containers.rows import at_one_level, opened, position, sampling_period
from ..message.requests import Acknowledgement, FlagsRequest
from ..privacy.mechanism import PrivacyMechanism
from ..server.moments import MomentServer
from ..server.watching.detector import RootCauseServer
from ..server.watching.incidents import UNDECIDED, FlagWatch, needed_answers, roots_of_flags, roots_per_step
from ..server.watching.operating import SETTLING
from ..server.watching.posterior import prior_weights
from ..server.watching.slow import spans_a_shift
from ..server.watching.thresholds import steps_between_alarms, watch_budget
from ..statespace.episodes import episodes
from ._declared import Declared, filled_inputs, has_words, input_ranges, merged_inputs
from ._input_spec import PlantModes, late_inputs
from ._parts import checked_watch, mechanisms, promise_key, watch_promise, with_callbacks
from ._watching import PlantStream, WatchingDetector, flag_array, flag_verdict, is_stream

if TYPE_CHECKING:
    from ..federation.exchange import Transport


# What tells a detector of a fault, as one object.


@dataclass(frozen=True, repr=False, eq=False)
class Evidence(ParameterGroup):
    """What counts as a sign of a fault and how the root is found from it.

    Parameters
    ----------
    signs : {"innovations", "flags"}, default="innovations"
        "innovations": surprises of the joint model. "flags": the paper's two bits per unit and step. The word alone,
        ``evidence="flags"``, stands for the object with nothing else set.
    statistic : {"both", "energy", "shift"}, default="both"
        "energy" counts in how many steps and for how long a unit surprises (best in closed loops), "shift"
        is the likelihood ratio of a fault that stays (best for small steady faults). "both" shares the
        budget between them; the one with more evidence for a fault names the root. Of nominal records of 960 rows or
        more, half of the budget (a fifth where 96 rows do not span eight hours) is for means and spreads over windows
        of up to 96 rows.
    prior : dict or array-like, default=None
        Prior weight of each unit being the root, by name or in the order of the units. None for equal ones.
    percentile : float, default=95.0
        Threshold of flags: percentile of the nominal distances.
    n_steps : int, default=1
        Steps over which flags must agree (Remark 5.1 of [1]_): the root in more than half of them. Randomised
        flags must agree in so many that their noise alone would not exceed the `false_alarm_rate` of the detector.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems.

    Examples
    --------
    >>> from skfedcausal import Evidence, FederatedRCADetector
    >>> FederatedRCADetector(evidence=Evidence("flags", percentile=99.0)).set_params(evidence__n_steps=5).evidence
    Evidence(n_steps=5, percentile=99.0, signs='flags')
    """

    signs: str = "innovations"
    statistic: str = "both"
    prior: Any = None
    percentile: float = 95.0
    n_steps: int = 1

    _parameter_constraints = {
        "signs": [StrOptions({"innovations", "flags"})],
        "statistic": [StrOptions({"both", "energy", "shift"})],
        "prior": ["array-like", dict, None],
        "percentile": [Interval(Real, 0, 100, closed="neither")],
        "n_steps": [Interval(Real, 1, None, closed="left")],
    }


# Federated root cause analysis: in which unit did a fault start.


@dataclass(repr=False, eq=False, kw_only=True)
class FederatedRCADetector(WatchingDetector):
    """Detects when a plant leaves normal operation and names the unit where it started.

    Fitted to nominal operation only. Every unit sends its states (`n_states` numbers per time step) and one
    number for what its sensors show beside them; the server compares each unit with what all units' pasts,
    and the other units' present, predict. A unit with a large surprise of its own is the root, one that only
    surprises a model of itself is a victim. Raw measurements never leave a unit.

    Parameters
    ----------
    client : KalmanClient, object, list or dict, default=None
        Model of the units, as in :class:`FederatedGrangerEstimator`. None lets every unit identify itself with
        as many states as a watched unit needs.
    client_labels : "from_columns", array-like or callable, default="from_columns"
        Which unit a column of a table belongs to. Actuators are best given as sensors of their unit: a
        controller's reaction reveals a fault.
    augmenter : LinearAugmenter or RegressorAugmenter, default=None
        Used by ``evidence="flags"``.
    server : MomentServer or LikelihoodServer, default=None
        How the plant is learned. None stands for :class:`~skfedcausal.server.moments.MomentServer`, a fixed
        number of steps towards maximum likelihood of a plant of one lag: as good as that at naming roots where
        one lag is enough, and never slow. A LikelihoodServer learns several lags where the nominal record asks
        for them; innovations, thresholds and roots are then those of that plant. Give it for dead times.
    privacy : GaussianMechanism, RandomizedResponse or list of both, default=None
        None: no differential privacy, messages are data-minimising, not private. A GaussianMechanism adds its
        noise to every record at its unit, nominal and watched, and everything is computed from what is left.
        A RandomizedResponse answers in place of a unit's flags (``evidence="flags"``), and protects nothing
        else; in a list with a GaussianMechanism that protects all other messages.
    communication : Communication, default=None
        What carries the messages (``transport=``), how precisely (``wire_dtype=``), at most how many bytes
        (``max_bytes=``), and what is done about units that do not answer (``lost_units=``), see
        :class:`~skfedcausal.Communication`. None: everything stays in this process, and every unit has to answer.
    evidence : Evidence or {"innovations", "flags"}, default="innovations"
        What counts as a sign of a fault and how the root is found from it, see :class:`Evidence`. "innovations":
        surprises of the joint model. "flags": the paper's two bits per unit and step.
    false_alarm_rate : float or str, default=1e-3
        False alarms per time step, all units and statistics together, or for instance ``"1 per day"`` for
        frames with a time index.
    input_columns : list of str or int, callable or dict, default=None
        Columns of a table that are inputs of the unit they belong to, see `inputs` of :meth:`fit`. A dict says of a
        column which units it acts on, ``{"plant__steam": ["a", "b"]}``: the first of them sends it, and what it does to
        any unit is learned in any case.
    sampled : {"auto", "after", "before"} or dict, default="auto"
        When inputs were set: "after" the row that they stand in was measured, as by a controller that reads the row
        first, or "before" it; a dict has a word for an input (``unit__input``) or for all inputs of a unit. Declared
        "after", an input explains nothing of its own row: its unit sends it a row later. "auto" and "before" let it
        explain that row as well. "after" is for plants that a MomentServer learns, in this process.
    baseline : Baseline, default=None
        What of the plant is nominal although it moves: `levels` and `mode` of a :class:`Baseline`; seasons, trends and
        the operating point belong to the one of `client`. None stands for one with ``levels="auto"``: where the nominal
        record clearly shifts between few levels, these are taken as nominal operating points, and a warning says so;
        the units are asked twice then. Of sites, and with `privacy`, `max_bytes` or a `client` of one's own, there is
        the warning only, of plants with inputs nothing. ``levels="episode"``: the episodes of the nominal record are
        campaigns with levels of their own, all of them nominal. The plant and the thresholds are learned from what is
        left without these levels, and the units are asked once more for the record with them. A plant that switches
        between campaigns is recognised by its rows, which is no incident; a stream begins at the level of the first
        one. ``levels=None``: all rows have the same level.

        `mode` is the name of a column of X that says in which mode a unit or the plant is (a recipe, a grade, day and
        night), in words or numbers: ``"unit__tag"``, a tag that several units have, or a column of a table, or an entry
        of a dict of units, that belongs to no unit. With `inputs` beside X it is one of these. It is an input with a
        level of its own for each mode, and a switch between modes that were in the nominal record is no incident. A
        mode that was not is named in a warning: rows of a unit in one of its own count as missing, and the others are
        watched; in one of the whole plant monitoring resumes after 130 rows. None: no modes are known.
    n_jobs : int, default=None
    random_state : int, RandomState instance or None, default=None
        Draws what is missing from the nominal record. None always draws the same.
    verbose : bool, default=False
        Write what is logged during a `fit` to standard error: every exchange with the units.

    Attributes
    ----------
    client_names_ : tuple of str
    thresholds_ : dict of str to float
        Alarm level of each statistic; of "slow", lasting changes, the common logarithm of the return period in days.
    false_alarms_ : dict
        ``asked, achieved, low, high`` per time step (95 % interval of a Poisson rate), ``n_alarms, n_steps``:
        alarms on nominal data that were held out.
    transition_, process_cov_ : ndarray of shape (n, n)
        The plant behind the innovations.
    state_slices_ : dict of str to slice
    clients_, augmenters_, server_, communication_, layout_
        See :class:`FederatedGrangerEstimator`.
    ledger_ : Ledger
        Every packet of the fit and of the records watched since.
    stream_ledger_ : StreamLedger
        Packets of the streams followed since the fit, counted by size.
    input_ranges_ : dict of str to (float, float)
        Least and largest value of each input in the nominal record, by flat name, but of words and after
        :meth:`fit_sites`. Farther out an alarm takes more evidence, and from a tenth of the range on a warning says so.
    site_incidents_ : DataFrame
        After :meth:`fit_sites`: incidents in the sites' records as far as they were watched.
    privacy_spent_, privacy_ledger_, privacy_statement_, noise_covariance_
        See :class:`FederatedGrangerEstimator`. Records and streams that are watched are charged as well: an
        event or window once for every record or stream it is in, a client for every row.

    See Also
    --------
    FederatedGrangerEstimator : Which unit drives which.

    Notes
    -----
    A disturbance of something that no sensor of its unit measures (the composition of a stream) is attributed
    to the first unit that measures it; only a `prior` or another sensor changes that.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems.
    .. [2] Willsky, Jones (1976), A generalized likelihood ratio approach to the detection and estimation of
           jumps in linear systems, IEEE Transactions on Automatic Control 21(1).

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(n_units=3, links=[("unit0", "unit1")], n_samples=3000, random_state=0)
    >>> nominal = {name: Y[:2600] for name, Y in X.items()}
    >>> faulty = {name: Y[2600:].copy() for name, Y in X.items()}
    >>> faulty["unit2"][200:] += 2 * faulty["unit2"].std(axis=0)
    >>> detector = FederatedRCADetector().fit(nominal)
    >>> detector.incidents(faulty).query("detected >= 200").root.iloc[0]
    'unit2'
    """

    evidence: Evidence | str = "innovations"
    false_alarm_rate: float | str = 1e-3
    input_columns: Columns | None = None
    privacy: PrivacyMechanism | Sequence[PrivacyMechanism] | None = None  # type: ignore[assignment]
    baseline: Baseline | None = None
    sampled: str | Mapping = "auto"

    _parameter_constraints = {
        **WatchingDetector._parameter_constraints,
        "privacy": [PrivacyMechanism, list, tuple, None],
        "evidence": [Evidence, StrOptions({"innovations", "flags"})],
        "false_alarm_rate": [Interval(Real, 0, 1, closed="neither"), str],
        "input_columns": ["array-like", callable, Mapping, None],
        "baseline": [Baseline, None],
        "sampled": [StrOptions({"auto", "after", "before"}), Mapping],
    }

    _groups = {"evidence": Evidence, "baseline": Baseline}
    _renamed = {"horizon": "FederatedRCADetector(evidence=Evidence(n_steps=...))"}
    _default_server, _monitors, _has_inputs = MomentServer, True, True

    def _validate_params(self):
        super()._validate_params()
        group_of(self, "baseline").check_watched()

    # -- learning --------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Record, y: Any = None, *, inputs: Inputs = None, lengths: Lengths = None) -> Self:
        """Learn the plant and what is nominal.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Measurements of all units in nominal operation, NaN where missing.
        y : None
            Ignored.
        inputs : list or dict, default=None
            What is set from outside: set-points, loads, weather, recipes, of each unit beside X, arrays of shape
            (n_samples, n_inputs_m), None for a unit without. In a dict those of several units have these for a key,
            ``{("a", "b"): U}``. They leave their unit as they are. What they do is learned and belongs to the
            innovations, so that a move of theirs is no incident; where they were never before, the plant is not judged
            for 100 rows, and beyond their ranges alarms take more evidence, which a warning says from a tenth of
            the range on. Missing ones are as they were in the row before. Inputs that are words have a level for
            each, as `mode` has.
        lengths : sequence of int, default=None
            Time steps of each episode; None for one episode.

        Returns
        -------
        self : FederatedRCADetector

        Raises
        ------
        ValueError
            If the data are too short to hold a part out, or the budget or prior cannot be read.
        """
        self._validate_params()
        self._promised = promise_key(checked_watch(self.privacy, self.signs, self.server))
        X, inputs, lengths = opened(X, inputs, lengths)
        inputs, moved = merged_inputs(inputs)
        declared = Declared(self.input_columns, moved)
        X, inputs, columns = self._learn_modes(X, inputs, declared.names)
        labels = declared.labels(X, self.client_labels)
        plant = self._read_new(X, inputs, lengths, labels=labels, input_columns=columns)
        declared.units(plant.layout)  # refuses units that there are not
        timed = self.sampled != "auto"
        self._late = late_inputs(plant.layout, self.sampled, self.mode, self.server) if timed else frozenset()
        plant = filled_inputs(plant, "hold")
        self.input_ranges_ = input_ranges(plant, () if self._modes is None else self._modes.labels)
        plant = self._seen_by_units(plant)
        self._set_budget(plant.index)
        prior_weights(self.prior, plant.names)
        randomised = self.signs == "flags" and mechanisms(self.privacy)[1] is not None
        if self.levels == "episode":
            return self._fit_campaigns(plant)
        self._fit_units(plant, home=plant if randomised else None)
        return self._with_visited(plant)

    # -- levels --------------------------------------------------------------------------------------

    def _fit_campaigns(self, plant, levels=None):
        """Fit to campaigns at one level, and take note of the levels that they have.

        `levels` are the numbers of the levels of the episodes, None where each has its own.
        """
        if self.signs == "flags":
            raise ValueError("Baseline(levels='episode') needs the levels of states; fit with evidence='innovations'.")
        short = [k for k, n_rows in enumerate(plant.lengths) if n_rows <= SETTLING]
        if short and levels is None:
            raise ValueError(
                f"Episodes {listed(map(str, short))} have at most {SETTLING} rows, too few for a level of their own. "
                "Give longer ones, or leave `levels` out."
            )
        self._fit_units(at_one_level(plant, levels))
        with self._asking_about(plant.only(self.client_names_)) as units:
            self._root_cause.know(units.messages(), levels)
        return self

    def _with_visited(self, plant=None):
        """Take levels that the nominal record visits for operating points, where that can be learned; it is told."""
        segments = None if self.levels != "auto" or self.signs == "flags" else self._root_cause.visited
        if not segments:
            return self
        before = self.__dict__.copy()
        done = "Nothing was done about that here, and a switch may be an incident."
        if plant is not None and all(limit is None for limit in (self.client, self.mode, self.privacy, self.max_bytes)):
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "One false alarm per")  # said of the whole record
                    self._fit_segments(plant, segments)
                done = "They are taken as nominal operating points: a switch between them is no incident."
            except ValueError as error:  # at one level units may be too short, or not to be told apart
                tried, self.__dict__ = self._account, before
                self._count_in(tried, plant)
                done = f"A switch may be an incident, as the detector cannot be fitted to what is between them: {error}"
        where = "; ".join(f"rows {s.start} to {s.stop - 1} at level {s.level + 1}" for s in segments)
        warn(
            f"The nominal record shifts between levels: {where}. {done} Declare them by `mode`, `inputs` or "
            "levels='episode', or give levels=None if they are none."
        )
        return self

    def _fit_segments(self, plant, segments):
        """Fit again to segments of the record at levels of their own; the ledger goes on."""
        before = self.ledger_
        self._fit_campaigns(plant.stretches([(s.start, s.stop) for s in segments]), [s.level for s in segments])
        self._root_cause.visited = segments
        account, self.ledger_ = self.ledger_, before
        self._count_in(account, plant)

    def _count_in(self, account, plant):
        """Let the account of what was sent go on with another one."""
        account.begin_with(self.ledger_)
        self.ledger_ = account
        self.communication_ = account.communication(plant.unit_bytes)

    # -- inputs and modes ------------------------------------------------------------------------------

    def _learn_modes(self, X, inputs, columns):
        """The record with codes in place of modes, its inputs, and the columns that are inputs."""
        self._modes = None
        if self.mode is None and not (has_words(X) or has_words(inputs)):
            return X, inputs, columns
        modes = PlantModes.learn(self.mode, X, inputs, columns)
        if not modes.labels:
            return X, inputs, columns
        modes.check_settings(self.mode, self.signs, self.levels)
        self._modes = modes
        return *modes.coded(X, inputs), None if inputs is not None else modes.input_columns(columns)

    def fit_sites(self, transport: "Transport") -> Self:
        """Learn the plant and what is nominal from units at sites of their own, see the other estimators.

        The message that a unit sends to learn the plant is about nominal operation and serves for the
        thresholds too: this works over a one-way link.

        Parameters
        ----------
        transport : Transport

        Returns
        -------
        self : FederatedRCADetector

        Raises
        ------
        ClientError
            If a unit that is needed gave no usable message.
        ValueError
            If the link is one-way and ``evidence="flags"`` needs an answer of the units, or the budget cannot
            be read.
        """
        self._validate_params()
        if self.signs == "flags" and getattr(transport, "one_way", False):
            raise ValueError("evidence='flags' asks the units again; over a one-way link use 'innovations'.")
        if self.levels == "episode":
            raise ValueError(
                "Baseline(levels='episode') needs the nominal record in this process: sites send theirs once."
            )
        if self.sampled != "auto":
            raise ValueError(
                "`sampled` is about rows of inputs, which sites keep. Leave it out, and let the site move a column "
                "that is set after its row down by one row."
            )
        self._promised, self.input_ranges_ = None, {}
        self._set_budget(None)
        super().fit_sites(transport)
        return self._with_visited()

    def _set_budget(self, index):
        """Steps between false alarms."""
        self._period = sampling_period(index)
        self._run_length = steps_between_alarms(self.false_alarm_rate, self._period)

    def _learn(self, exchange, server, inputs):
        self._nominal_of = None
        exchange.then = self._learn_nominal
        super()._learn(exchange, server, inputs)
        exchange.then = None
        if self.signs == "flags":
            nominal = dict.fromkeys(exchange.messages, FlagsRequest(float(self.percentile)))
            exchange.ask(nominal, Acknowledgement)

    def _new_server(self):
        server = super()._new_server()
        if getattr(server, "trains_units", False):
            raise TypeError(
                "FederatedRCADetector compares units by a density of the whole plant, which GradientServer "
                "does not learn. Give MomentServer, LikelihoodServer or RegressorServer."
            )
        return server

    def _store_fit(self, server, exchange):
        """What is nominal, from the messages that the plant was learned from."""
        messages = exchange.messages
        watch_budget(self._run_length, len(next(iter(messages.values())).z))
        if self._nominal_of is None or any(self._nominal_of.get(k) is not one for k, one in messages.items()):
            self._learn_nominal(server, messages)
        self._nominal_of = None
        self.thresholds_ = dict(self._root_cause.levels.thresholds)
        self.false_alarms_ = self._root_cause.levels.false_alarms
        self._flagger = secrets.token_hex(8)
        self._watch: Any = self._root_cause
        if self.signs == "flags":
            self._watch = FlagWatch(int(self.n_steps), self._needed_flags())
        self.reset()

    def _learn_nominal(self, server, messages):
        """What is nominal; where messages are judged they have to do for this too."""
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        prior = prior_weights(self.prior, server.names_)
        watch = RootCauseServer(self.statistic, self._run_length, prior, rng, spans_a_shift(self._period))
        self._root_cause = watch.fit(server, messages)
        has_inputs = any(message.inputs is not None for message in messages.values())
        if self._root_cause.is_whole and isinstance(server, MomentServer) and not has_inputs:
            self._root_cause.learner = clone(server)
        is_learned = not (server.controlled_units_ or getattr(server, "trains_corrections", False))
        self._nominal_of = dict(messages) if is_learned else None  # else the plant is not what it will be

    def _needed_flags(self):
        """Steps within the horizon in which flags have to agree on a root."""
        mechanism, horizon = mechanisms(self.privacy)[1], int(self.n_steps)
        if mechanism is None:
            return horizon // 2 + 1
        kept, other = mechanism.confusion[0, :2]
        rate = 1 / self._root_cause.run_length / len(self.client_names_)
        return needed_answers(horizon, kept, other, 1 - self.percentile / 100, rate)

    # -- privacy ---------------------------------------------------------------------------------

    @property
    def _message_mechanism(self):
        return mechanisms(self.privacy)[0]

    def _promise(self, names, n_samples):
        return watch_promise(self.privacy, names, n_samples)

    def _sites(self, plant, watched):
        """Units about a watched record, which may tell their states or nothing but flags."""
        messages, of_flags = mechanisms(self.privacy)
        if of_flags is None or not watched or self.signs != "flags":
            if messages is None and of_flags is not None:
                raise ValueError(
                    "RandomizedResponse protects flags, and this method needs states. Use flags, incidents, predict "
                    "or predict_root_cause, or fit with privacy=[GaussianMechanism(...), RandomizedResponse(...)]."
                )
            return super()._sites(plant, watched)
        pairs = randomised_flags(of_flags, plant, self._units, self._flagger)
        self._store_promise(plant.n_samples)
        return units_alone(self._units, plant.layout, flags=pairs)

    def _released(self, plant, noise=None):
        """A record with the noise of the nominal one, under which the thresholds were set."""
        return super()._released(plant, self._noise if noise is None else noise)

    def _checked_mechanism(self):
        """The mechanism for messages, which must be the one that the thresholds were set under."""
        mechanism = super()._checked_mechanism()
        if promise_key(mechanism) != self._promised:
            raise ValueError("`privacy` changed since `fit`, and the thresholds hold for that noise. Fit it again.")
        return mechanism

    # -- incidents in records ------------------------------------------------------------------------

    @overload
    def incidents(self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None) -> pd.DataFrame: ...
    @overload
    def incidents(self, X: Iterator[Any]) -> Iterator[pd.DataFrame]: ...
    @overload
    def incidents(self, X: AsyncIterator[Any]) -> AsyncIterator[pd.DataFrame]: ...
    def incidents(self, X: Any = None, *, inputs: Inputs = None, lengths: Lengths = None) -> Any:
        """Incidents in a record.

        Parameters
        ----------
        X : list, dict, DataFrame, ndarray or iterator
            An iterator of batches, or an asynchronous one, gives an iterator of tables of what is new or revised, see
            :meth:`update`; it begins a stream, as :meth:`reset` does.
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            One row per fault: ``start`` (onset), ``detected``, ``end`` (last step of the fault, or the one before it
            became the operating point; NaN while open), ``root`` (the unit, or what enters it unmeasured; "undecided"
            below a probability of one half), ``probability``, ``undecided``, ``path`` [(name, delay), ...],
            ``ranking`` [(name, probability), ...], ``kind`` of fault ("process", "sensor", "undecided", "drift" of a
            level that was followed, or "status", "sensor held" or "unit held" where the unit notices that itself, or
            "level", "quieter" or "louder" of lasting changes, or "outside what was learned" where states act along
            curves and went further than these were seen; in a stream also "switch" of an alarm that was reported and
            turned out to be a switch between campaigns, or how the plant ran before the stream began),
            ``repeats`` [(detected, end), ...] of later alarms of the same fault, and ``status``: "active", "running at
            a new level since ..." of a fault that lasts after its alarm until it is acknowledged, or "ended".
            Positions from 0, or times where the record has them. With ``evidence="flags"`` an incident is a
            run of steps with a root in the flags, over after ten steps without one, and a unit's probability
            its share of these steps.
        """
        if is_stream(X):
            return self._followed(X, PlantStream.dated)
        with self._asking(X, inputs, lengths, watched=True) as units:
            found, index = self._verdicts(units), units.index
        return self._table(found, index)

    @overload
    def predict_root_cause(
        self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None
    ) -> np.ndarray: ...
    @overload
    def predict_root_cause(self, X: Iterator[Any]) -> Iterator[tuple[slice, np.ndarray]]: ...
    @overload
    def predict_root_cause(self, X: AsyncIterator[Any]) -> AsyncIterator[tuple[slice, np.ndarray]]: ...
    def predict_root_cause(self, X: Any = None, *, inputs: Inputs = None, lengths: Lengths = None) -> Any:
        """Root at every time step: a unit's name, "" without an incident, "undecided" where unclear.

        Parameters
        ----------
        X : list, dict, DataFrame, ndarray or iterator
            An iterator of batches, or an asynchronous one, gives an iterator of pairs: a slice of rows that are new or
            revised, and their roots. Joined in their order these are the answer to the whole record.
        inputs, lengths
            As in `fit`.

        Returns
        -------
        ndarray of str, shape (n_samples,)
        """
        if is_stream(X):
            return self._followed(X, PlantStream.labels)
        with self._asking(X, inputs, lengths, watched=True) as units:
            if self.signs == "flags":
                flags = flag_array(self._evidence_of(units), self.client_names_)
                bounds, watch = episodes(units.starts, len(flags)), self._watch
                roots = np.concatenate([roots_of_flags(flags[i:j], watch.horizon, watch.needed) for i, j in bounds])
                self._tell(units.exchange, flag_verdict(roots, len(self.client_names_)))
                return np.array([*self.client_names_, UNDECIDED, ""], dtype=object)[roots].astype(str)
            found = self._verdicts(units)
        roots = np.full(units.n_samples, "", dtype=object)
        for start, stop in episodes(units.starts, units.n_samples):
            here = [v for first, v in found if first == start]
            roots[start:stop] = roots_per_step(here, self.client_names_, stop - start)
        return roots.astype(str)

    def predict(self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None) -> np.ndarray:
        """+1 where the plant is nominal, -1 during an incident, shape (n_samples,).

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return np.where(self.predict_root_cause(X, inputs=inputs, lengths=lengths) == "", 1, -1)

    def decision_function(
        self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None
    ) -> np.ndarray:
        """How far every row is from an alarm: one less the largest of :meth:`transform`, below zero in alarm.

        An incident begins before its first alarm, bridges short pauses and ends with its fault, so that
        :meth:`predict` may be -1 in rows that are above zero here, and 1 in rows of an aftermath that are below.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return 1.0 - np.asarray(self.transform(X, inputs=inputs, lengths=lengths)).max(axis=1)

    def attribute(
        self,
        X: Record | None = None,
        *,
        start: int | str | pd.Timestamp = 0,
        end: int | str | pd.Timestamp | None = None,
        inputs: Inputs = None,
        lengths: Lengths = None,
    ) -> pd.DataFrame:
        """Root of whatever happened in a window the user names, whether there was an alarm or not.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record of one episode; rows before the window are the plant's history. What a unit shows on the 96 rows
            before it without an alarm is no sign of what happens in it.
        start, end : int or time, default=0, None
            First row of the window and the row after its last, as positions or, for a record with times,
            times; None for the end of the record.
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            ``client, probability, statistic``, best first; `statistic` is the unit's largest alarm level. What the
            probabilities lack to one is that nothing happened; a fault may be too small to be seen.

        Raises
        ------
        ValueError
            If the record has several episodes, or the window is empty or lies outside it.
        """
        with self._asking(X, inputs, lengths) as units:
            if len(units.lengths) > 1:
                raise ValueError(f"Got {len(units.lengths)} episodes; give the record of one.")
            n_samples = units.n_samples
            first, last = position(start, units.index, 0), position(end, units.index, n_samples)
            if not 0 <= first < last <= n_samples:
                raise ValueError(f"start={first}, end={last} is no window of a record of {n_samples} rows.")
            _, probability, score = self._root_cause.attribute(units.messages(), first, last)
        order = np.argsort(-probability, kind="stable")
        names = np.array(self.client_names_, dtype=object)
        columns = {"client": names[order], "probability": probability[order], "statistic": score[order]}
        return pd.DataFrame(columns)

    def transform(self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None) -> np.ndarray:
        """Alarm level of every unit relative to the threshold, above one in alarm, (n_samples, n_units).

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_units)
        """
        with self._asking(X, inputs, lengths) as units:
            messages, levels = units.messages(), []
            for start, stop in episodes(units.starts, units.n_samples):
                part = {name: message.rows(start, stop) for name, message in messages.items()}
                levels.append(self._root_cause.relative_levels(part))
        return np.concatenate(levels)

    def _names_out(self, input_features=None):
        """Names of the units; scikit-learn may name the columns of X."""
        check_is_fitted(self)
        return np.array(self.client_names_, dtype=object)

    # -- scores --------------------------------------------------------------------------------------

    def score(
        self,
        X: Record | None = None,
        y: Any = None,
        *,
        inputs: Inputs = None,
        lengths: Lengths = None,
        sample_weight=None,
    ) -> float:
        """Macro F1 of the roots per time step against `y`, or the mean of :meth:`score_samples`.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        y : array-like of str, shape (n_samples,), default=None
            True root at each step, "" without a fault. "undecided" answers count as wrong.
        inputs, lengths
            As in `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        if y is None:
            return weighted_mean(self.score_samples(X, inputs=inputs, lengths=lengths), sample_weight)
        truth = np.asarray(y, dtype=str)
        roots = self.predict_root_cause(X, inputs=inputs, lengths=lengths)
        labels = np.unique(truth)
        how = {"labels": labels, "average": "macro", "zero_division": 0.0, "sample_weight": sample_weight}
        return float(f1_score(truth, roots, **how))
