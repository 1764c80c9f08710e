"""Federated root cause analysis: in which unit did a fault start."""

from collections.abc import Mapping
from numbers import Real

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..client.monitor import watched
from ..containers.sampling import check_sampling, position, sampling_period, warn_of_gaps
from ..federation.watching import StreamLedger, flag_verdict, tell_verdict, verdict_reply
from ..privacy.mechanism import PrivacyMechanism
from ..server.moments import MomentServer
from ..server.watching.flag_incidents import FlagState
from ..server.watching.flags import roots_of_flags
from ..server.watching.incidents import (
    UNDECIDED,
    incident_row,
    incident_table,
    roots_per_step,
    steps_between_alarms,
)
from ..server.watching.nominal import watch_budget
from ..server.watching.root_cause import RootCauseServer, StreamState
from ..statespace.episodes import episodes
from ._base import FederatedEstimator, client_templates, messages_about
from ._incident_reports import IncidentReports
from ._progress import followed
from ._sites import WatchingFromSites
from ._streams import FollowedStream
from ._watching import WatchingMixin


class FederatedRCADetector(
    IncidentReports, FollowedStream, WatchingMixin, WatchingFromSites, FederatedEstimator
):
    """Tells when a plant is out of the ordinary and in which unit it started.

    Fitted to nominal operation only. Every unit sends its states (`n_states` numbers per time step) and one
    number for what its sensors show beside them; the server compares each unit with what all units' pasts,
    and the other units' present, predict. A unit with a large surprise of its own is the root, one that only
    surprises a model of itself is a victim. Raw measurements never leave a unit.

    Parameters
    ----------
    client : KalmanClient, object, list or dict, default=None
        Model of the units, as in :class:`FederatedGrangerEstimator`. None identifies every unit at home with
        as many states as a watched unit needs.
    client_labels : "from_columns", array-like or callable, default="from_columns"
        Which unit a column of a table belongs to. Actuators are best given as sensors of their unit: a
        controller's reaction tells of a fault.
    augmenter : LinearAugmenter or RegressorAugmenter, default=None
        Used by ``evidence="flags"``.
    server : MomentServer or LikelihoodServer, default=None
        How the plant is learned. None stands for :class:`~skfedcausal.server.moments.MomentServer`, a fixed
        number of steps towards maximum likelihood: as good as that at naming roots and never slow.
    privacy : GaussianMechanism, RandomizedResponse or list of both, default=None
        None: no differential privacy, messages are data-minimising, not private. A GaussianMechanism adds its
        noise to every record at its unit, nominal and watched, and everything is computed from what is left.
        A RandomizedResponse answers in place of a unit's flags (``evidence="flags"``), and protects nothing
        else; in a list with a GaussianMechanism that protects all other messages.
    transport : callable, default=None
    wire_dtype : {"float64", "float32", "float16"}, default="float64"
    evidence : {"innovations", "flags"}, default="innovations"
        "innovations": surprises of the joint model. "flags": the paper's two bits per unit and step.
    statistic : {"both", "energy", "shift"}, default="both"
        "energy" counts in how many steps and for how long a unit surprises (best in closed loops), "shift"
        is the likelihood ratio of a fault that stays (best for small steady faults). "both" shares the
        budget between them; the one with more evidence for a fault names the root.
    false_alarm_rate : float or str, default=1e-3
        False alarms per time step, all units and statistics together, or for instance ``"1 per day"`` for
        frames with a time index.
    percentile : float, default=95.0
        Threshold of ``evidence="flags"``: percentile of the nominal distances.
    horizon : int, default=1
        Steps over which flags must agree (Remark 5.1 of [1]_): the root in more than half of them. Randomised
        flags must agree in so many that their noise alone would not exceed `false_alarm_rate`.
    prior : dict or array-like, default=None
        Prior weight of each unit being the root, by name or in the order of the units. None for equal ones.
    n_jobs : int, default=None
    random_state : int, RandomState instance or None, default=None
        Draws the bootstrap stretches behind the thresholds. None always draws the same.
    lost_units : LostUnits, default=None
        What the fit does about units that do not answer, see
        :class:`~skfedcausal.federation.LostUnits`. None: every unit has to answer.
    max_bytes : int, default=None
        Most bytes that may leave all units together, in `fit` and when the estimator is asked about records
        afterwards (streams aside): what would exceed it is not sent, and a
        :class:`~skfedcausal.federation.ByteLimitError` says so. Sites of their own have limits of their own.
    verbose : bool, default=False
        Write what is logged during a `fit` to standard error: every exchange with the units.

    Attributes
    ----------
    client_names_ : tuple of str
    thresholds_ : dict of str to float
        Alarm level of each statistic.
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

    _parameter_constraints = {
        **FederatedEstimator._parameter_constraints,
        "privacy": [PrivacyMechanism, list, tuple, None],
        "evidence": [StrOptions({"innovations", "flags"})],
        "statistic": [StrOptions({"both", "energy", "shift"})],
        "false_alarm_rate": [Interval(Real, 0, 1, closed="neither"), str],
        "percentile": [Interval(Real, 0, 100, closed="neither")],
        "horizon": [Interval(Real, 1, None, closed="left")],
        "prior": ["array-like", dict, None],
    }

    def __init__(
        self,
        client=None,
        *,
        client_labels="from_columns",
        augmenter=None,
        server=None,
        privacy=None,
        transport=None,
        wire_dtype="float64",
        evidence="innovations",
        statistic="both",
        false_alarm_rate=1e-3,
        percentile=95.0,
        horizon=1,
        prior=None,
        n_jobs=None,
        random_state=None,
        lost_units=None,
        max_bytes=None,
        verbose=False,
    ):
        self.client = client
        self.client_labels = client_labels
        self.augmenter = augmenter
        self.server = server
        self.privacy = privacy
        self.transport = transport
        self.wire_dtype = wire_dtype
        self.evidence = evidence
        self.statistic = statistic
        self.false_alarm_rate = false_alarm_rate
        self.percentile = percentile
        self.horizon = horizon
        self.prior = prior
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.lost_units = lost_units
        self.max_bytes = max_bytes
        self.verbose = verbose

    # -- learning --------------------------------------------------------------------------------

    @followed
    def fit(self, X, y=None, *, inputs=None, lengths=None, dry_run=False):
        """Learn the plant and what is nominal.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Measurements of all units in nominal operation, NaN where missing.
        y : None
            Ignored.
        inputs : None
            Inputs are given as sensors of their unit.
        lengths : sequence of int, default=None
            Time steps of each episode; None for one episode.
        dry_run : bool, default=False
            Send nothing, learn nothing, and return what would be sent: the table of :meth:`plan`.

        Returns
        -------
        self : FederatedRCADetector
            A DataFrame in its place with `dry_run`.

        Raises
        ------
        ValueError
            If the data are too short to hold a part out, or the budget or prior cannot be read.
        """
        self._validate_params()
        if dry_run:
            return self.plan(X, inputs=inputs, lengths=lengths)
        self._check_privacy()
        if inputs is not None:
            raise ValueError("FederatedRCADetector has no inputs; give them as sensors of their unit.")
        data = self._read_new(X, inputs, lengths)
        warn_of_gaps(data.index, data.starts)
        budget = self._budget(data.index, data.names, data.n_samples)
        at_home, data = data, self._released_to_learn(data)
        self._fit_released(data)
        self._learn_nominal(messages_about(data, self.clients_), *budget)
        if self.evidence == "flags":
            self._learn_flags(at_home, data)
        return self

    def _budget(self, index, names, n_samples):
        """Steps between false alarms, and the units' prior weights."""
        self._period = sampling_period(index)
        run_length = steps_between_alarms(self.false_alarm_rate, index)
        watch_budget(run_length, n_samples)
        return run_length, _prior(self.prior, names)

    def _learn_nominal(self, messages, run_length, prior):
        """What is nominal, from messages about nominal operation."""
        seed = 0 if self.random_state is None else self.random_state
        self._root_cause = RootCauseServer(self.statistic, run_length, prior, check_random_state(seed))
        self._root_cause.fit(self.server_, messages)
        self.thresholds_ = dict(self._root_cause.levels.thresholds)
        self.false_alarms_ = self._root_cause.levels.false_alarms
        self.stream_ledger_ = StreamLedger(self.wire_dtype)
        self.reset()

    def _new_server(self, default=None):
        return super()._new_server(default or MomentServer())

    def _templates(self, names):
        if self.client is None:
            return {name: watched(None) for name in names}
        templates = client_templates(self.client, names, self.random_state)
        return {name: watched(client) for name, client in templates.items()}

    def _store_fit(self, server):
        self.client_names_ = server.names_
        self.transition_ = server.transition_
        self.process_cov_ = server.process_cov_
        self.state_slices_ = server.state_slices_

    # -- following -------------------------------------------------------------------------------

    def _read(self, X, inputs=None, lengths=None, stream=None):
        """Plant data in the layout and at the sampling period of `fit`."""
        data = super()._read(X, inputs, lengths, stream)
        check_sampling(data.index, self._period)
        warn_of_gaps(data.index, data.starts)
        return data

    def _verdicts(self, data):
        """Incidents of every episode, as (first row of the episode, verdict); the units are told."""
        if self.evidence == "flags":
            found = self._found_in_flags(self._flag_array(data), data.starts)
        else:
            found = self._found(self._messages(data), data.starts)
        tell_verdict(verdict_reply(found), self.client_names_, self.ledger_)
        return found

    def _found(self, messages, starts):
        """Incidents that messages tell of, as (first row of the episode, verdict)."""
        return [
            (start, verdict)
            for start, part in _episodes(messages, starts)
            for verdict in self._root_cause.push(part, StreamState())
        ]

    def _found_in_flags(self, flags, starts):
        """The same from two bits per unit and step."""
        return [
            (start, verdict)
            for start, stop in episodes(starts, len(flags))
            for verdict in self._flag_watch.push(flags[start:stop], FlagState())
        ]

    def incidents(self, X, *, inputs=None, lengths=None):
        """Incidents in a record.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            One row per incident: ``start`` (onset), ``detected``, ``end`` (last step in alarm; NaN while
            open), ``root`` (the unit, or what enters it unmeasured; "undecided" below a
            probability of one half), ``probability``, ``undecided``, ``path`` [(name, delay), ...],
            ``ranking`` [(name, probability), ...], ``kind`` of fault ("process", "sensor" or "undecided").
            Positions from 0, or times where the record has them. With ``evidence="flags"`` an incident is a
            run of steps with a root in the flags, over after ten steps without one, and a unit's probability
            its share of these steps.
        """
        data = self._read(X, inputs, lengths)
        index = data.index if isinstance(data.index, pd.DatetimeIndex) else None
        names = self.client_names_
        return incident_table([incident_row(v, names, start, index) for start, v in self._verdicts(data)])

    def predict_root_cause(self, X, *, inputs=None, lengths=None):
        """Root at every time step: a unit's name, "" without an incident, "undecided" where unclear.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        ndarray of str, shape (n_samples,)
        """
        data = self._read(X, inputs, lengths)
        if self.evidence == "flags":
            flags, bounds = self._flag_array(data), episodes(data.starts, data.n_samples)
            roots = np.concatenate(
                [roots_of_flags(flags[i:j], int(self.horizon), self._needed) for i, j in bounds]
            )
            tell_verdict(flag_verdict(roots, len(self.client_names_)), self.client_names_, self.ledger_)
            labels = np.array([*self.client_names_, UNDECIDED, ""], dtype=object)
            return labels[roots].astype(str)
        roots = np.full(data.n_samples, "", dtype=object)
        found = self._verdicts(data)
        for start, stop in episodes(data.starts, data.n_samples):
            here = [v for first, v in found if first == start]
            roots[start:stop] = roots_per_step(here, self.client_names_, stop - start)
        return roots.astype(str)

    def predict(self, X, *, inputs=None, lengths=None):
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

    def attribute(self, X, *, start=0, end=None, inputs=None, lengths=None):
        """Root of whatever happened in a window the user names, whether there was an alarm or not.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record of one episode; rows before the window are the plant's history.
        start, end : int or time, default=0, None
            First row of the window and the row after its last, as positions or, for a record with times,
            times; None for the end of the record.
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            ``client, probability, statistic``, best first; `statistic` is the unit's largest alarm level.

        Raises
        ------
        ValueError
            If the record has several episodes, or the window is empty or lies outside it.
        """
        data = self._read(X, inputs, lengths)
        if len(data.lengths) > 1:
            raise ValueError(f"Got {len(data.lengths)} episodes; give the record of one.")
        start, end = position(start, data.index, 0), position(end, data.index, data.n_samples)
        if not 0 <= start < end <= data.n_samples:
            raise ValueError(f"start={start}, end={end} is no window of a record of {data.n_samples} rows.")
        _, probability, score = self._root_cause.attribute(self._messages(data), start, end)
        order = np.argsort(-probability, kind="stable")
        names = np.array(self.client_names_, dtype=object)
        columns = {"client": names[order], "probability": probability[order], "statistic": score[order]}
        return pd.DataFrame(columns)

    def transform(self, X, *, inputs=None, lengths=None):
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
        data = self._read(X, inputs, lengths)
        return np.concatenate(
            [
                self._root_cause.relative_levels(part)
                for _, part in _episodes(self._messages(data), data.starts)
            ]
        )

    def get_feature_names_out(self, input_features=None):
        """Names of the units.

        Parameters
        ----------
        input_features : ignored
            Part of scikit-learn's interface.

        Returns
        -------
        ndarray of str of shape (n_units,)
        """
        check_is_fitted(self)
        return np.array(self.client_names_, dtype=object)

    # -- scores --------------------------------------------------------------------------------------

    def score_samples(self, X, *, inputs=None, lengths=None):
        """Log-density of all measurements at each time step given the past, shape (n_samples,).

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats.
        """
        data = self._read(X, inputs, lengths)
        return self.server_.filter(self._messages(data, const=True)).log_likelihood()

    def score(self, X, y=None, *, inputs=None, lengths=None):
        """Macro F1 of the roots per time step against `y`, or the mean of :meth:`score_samples`.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        y : array-like of str, shape (n_samples,), default=None
            True root at each step, "" without a fault. "undecided" answers count as wrong.
        inputs, lengths
            As in `fit`.

        Returns
        -------
        float
        """
        if y is None:
            return float(self.score_samples(X, inputs=inputs, lengths=lengths).mean())
        truth = np.asarray(y, dtype=str)
        roots = self.predict_root_cause(X, inputs=inputs, lengths=lengths)
        labels = np.unique(truth)
        return float(f1_score(truth, roots, labels=labels, average="macro", zero_division=0.0))


def _prior(prior, names):
    """Prior probability of each unit, summing to one."""
    if prior is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(prior, Mapping):
        if set(prior) != set(names):
            raise ValueError(
                f"`prior` names {sorted(prior)}, the units are {sorted(names)}. Name every unit."
            )
        prior = [prior[name] for name in names]
    weights = np.asarray(prior, dtype=float)
    if weights.shape != (len(names),) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(
            f"`prior` has shape {weights.shape}; give one weight of at least 0 for each of the {len(names)} "
            f"units {', '.join(names)}."
        )
    return weights / weights.sum()


def _episodes(messages, starts):
    """First row and messages of every episode."""
    n_samples = len(next(iter(messages.values())).z)
    for start, stop in episodes(starts, n_samples):
        whole = stop - start == n_samples
        rows = messages if whole else {name: each.rows(start, stop) for name, each in messages.items()}
        yield start, rows
