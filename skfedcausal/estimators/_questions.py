"""Questions of people who run a plant, asked of an estimator that has learned what its inputs do.

Methods of the estimator beside `counterfactual` and `whatif`; what answers them is imported when it is asked.
"""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..message.requests import Measurements
from ..message.states import EffectReply
from ._interventions import check_confidence


def told_loadings(estimator, exchange):
    """How all sensors follow the states of their units, as these say, shape (n_sensors, n), and their names."""
    slices = estimator.state_slices_
    unit_states = {name: EffectReply(np.eye(rows.stop - rows.start)) for name, rows in slices.items()}
    answers = exchange.ask(unit_states, Measurements)
    positions, columns = estimator._places(answers)
    C = np.zeros((len(columns), len(estimator.transition_)))
    for unit, (name, states) in zip(positions, slices.items(), strict=True):
        C[unit, states] = answers[name].values.T
    return C, columns


def check_covariances(estimator, what):
    """Refuse a question whose answer rests on how sure the plant is."""
    server = estimator.server_
    if not getattr(server, "has_covariances", True):
        raise ValueError(
            f"{type(server).__name__} learns a point without a sampling covariance, and {what} weighs how sure the "
            "effects of inputs are. Fit with server=LikelihoodServer() to ask for it."
        )


def impact(
    self,
    X,
    do,
    window,
    *,
    inputs=None,
    lengths=None,
    confidence=0.9,
    loops="hold",
    margin=0.1,
    limits=None,
    question="did",
):
    """What a move of inputs did within a window of rows, or what other inputs would have done.

    Parameters
    ----------
    X : list, dict, DataFrame or ndarray
        Record with the move, in a container as in `fit`; None after `fit_sites`.
    do : dict of str to (float, array-like or callable)
        What an input ``unit__input`` would have been in the window: a number, one value for
        each row of the window, or a function of the recorded series there; names of levels for an input
        that has any.
    window : tuple
        ``(start, stop)``: positions of the first row of the window and of the one after its last, or times of
        a record with a time index.
    inputs, lengths
        As in `fit`.
    confidence : float, default=0.9
        Of all bands.
    loops : {"hold", "react"}, default="hold"
        As in :meth:`counterfactual`.
    margin : float, default=0.1
        Mean effect, in standard deviations of a column in the record, within which there is none to speak of. Bands of
        effects leave out half of that to either side of zero.
    limits : dict of str to (float, float), default=None
        As in :meth:`whatif`.
    question : {"did", "would"}, default="did"
        "did": what the move in the record did, what was recorded less what would have been. "would": what the values in
        `do` would have done, what would have been less what was recorded.

    Returns
    -------
    Impact
        Table by row, totals with a verdict for every column, and the sentence.

    Raises
    ------
    ValueError
        If the window leaves the record or holds no row, and as :meth:`whatif`.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> found = est.impact(X, {"unit0__u0": 0.0}, (1000, 1030), inputs=truth.inputs)
    >>> found.table.columns.tolist()[:5]
    ['time', 'column', 'factual', 'counterfactual', 'effect']
    """
    check_is_fitted(self)
    from .impact import asked_impact

    asked = {"inputs": inputs, "lengths": lengths, "loops": loops, "limits": limits, "question": question}
    return asked_impact(self, X, do, window, confidence=confidence, margin=margin, **asked)


def dose_response(self, X, input, doses, window, *, inputs=None, lengths=None, confidence=0.9, loops="hold"):
    """Mean effect over a window of holding an input at each of several values there.

    Parameters
    ----------
    X : list, dict, DataFrame or ndarray
    input : str
        Its flat name, ``unit__input``.
    doses : sequence
        Values, or names of levels.
    window : tuple
        As in :meth:`impact`.
    inputs, lengths
        As in `fit`.
    confidence : float, default=0.9
    loops : {"hold", "react"}, default="hold"

    Returns
    -------
    DataFrame
        One row per dose and column: ``dose, column, effect, low, high``, the effect a mean over the window
        and against the record as it is.
    """
    check_is_fitted(self)
    from .impact import dose_table

    asked = {"inputs": inputs, "lengths": lengths, "loops": loops, "confidence": confidence}
    return dose_table(self, X, input, doses, window, **asked)


def reach(
    self,
    target,
    *,
    inputs,
    bounds,
    by,
    rates=None,
    hold=None,
    X=None,
    confidence=0.9,
    record_inputs=None,
    lengths=None,
):
    """A schedule of inputs that brings sensors to targets, with what it promises.

    Parameters
    ----------
    target : dict of str to float
        Value by sensor, ``unit__sensor``, of any units.
    inputs : list of str
        Inputs that may move, ``unit__input``; all others stay as they are in the last row of X.
    bounds : dict of str to (float, float)
        Low and high end of every one of them, which hold its present value.
    by : int
        Rows from now, 1 for the next one, until the targets are reached.
    rates : dict of str to float, default=None
        Most that an input may change from row to row; None for any change.
    hold : int, default=None
        Rows that the targets are held after that. None: 5.
    X : list, dict, DataFrame or ndarray, default=None
        The rows up to now, in a container as in `fit`; None after `fit_sites`, for the record of the sites.
    confidence : float, default=0.9
        Of the band of what is promised.
    record_inputs : list or dict, default=None
        Inputs beside X, as `inputs` of `fit`.
    lengths : sequence of int, default=None
        Rows of each episode of X; the last of them goes on.

    Returns
    -------
    Reach
        Verdict, schedule, promised trajectory.

    Raises
    ------
    ValueError
        If an input or sensor is unknown, an input never moved in `fit` or has levels, bounds are missing or
        leave out the present value.

    Warns
    -----
    UserWarning
        If the schedule leaves the range of an input that was seen in `fit`.

    Notes
    -----
    The schedule has the least expected squared miss over the rows where the targets have to be reached, the
    error of the estimated plant included, with a small price on moves that makes it unique. "Not reachable" is
    said where even so the promise stays away from a target by more than the plant may be wrong, "cannot tell"
    where it stays away by less, where the effect of the inputs is hardly known, or where the target lies
    outside what was seen or the schedule leaves the range of an input by a tenth of it. It leaves that range only
    where no schedule within it is enough. The band is that of a forecast, see :meth:`forecast`, and of the effect.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> limits = {"unit0__u0": (-3, 3)}
    >>> est.reach({"unit0__x0": 1e6}, inputs=list(limits), bounds=limits, by=10, X=X,
    ...     record_inputs=truth.inputs).verdict
    'not reachable'
    """
    check_is_fitted(self)
    check_confidence(confidence)
    check_covariances(self, "a plan")
    from .reach import asked_plan, wished

    wish = wished(self, target, inputs, bounds, by, rates, hold)
    return asked_plan(self, wish, X, record_inputs, lengths, confidence)


def experiment(self, cause, effect, *, inputs, bounds, rows, kind="state", rates=None, now=None):
    """The moves of inputs within bounds that would best decide whether one unit acts on another.

    Parameters
    ----------
    cause, effect : str
        Units of the link that is to be decided.
    inputs : list of str
        Inputs that may move, ``unit__input``.
    bounds : dict of str to (float, float)
        Low and high end of every one of them.
    rows : int
        Rows of the experiment, at least 10.
    kind : {"state", "input"}, default="state"
        Whether the states of `cause` act on `effect`, or its inputs do.
    rates : dict of str to float, default=None
        Most that an input may change from row to row; None for any change.
    now : dict of str to float, default=None
        Present values of inputs, from which rates count; None for any.

    Returns
    -------
    Experiment
        Schedule, and the rows that it and a random excitation need for a decision.

    Raises
    ------
    ValueError
        If a unit or input is unknown, bounds are missing or leave out the present value, or the inputs do nothing
        to the cause.

    Notes
    -----
    The schedule has the largest determinant of the information about the coefficients of the link, given all others
    that act on the effect, in the plant that was learned (D-optimality for a part of the coefficients). It asks no
    unit and sends nothing. Put the rows of the experiment behind those of the record (`lengths`) and fit again.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> plan = est.experiment("unit0", "unit1", inputs=["unit0__u0"], bounds={"unit0__u0": (-3, 3)}, rows=100)
    >>> plan.rows_needed <= plan.random_rows_needed
    True
    """
    check_is_fitted(self)
    check_covariances(self, "an experiment")
    from .experiment import asked_experiment

    return asked_experiment(self, cause, effect, inputs, bounds, rows, kind, rates, now)


def sensitivity(self, n, u0, u1, *, horizon=1, strength=0.5, confidence=0.9):
    r"""How wrong an effect may be if something that nobody measures moves the input and the plant at once.

    Parameters
    ----------
    n, u0, u1, horizon
        As in :meth:`counterfactual`.
    strength : float, default=0.5
        Share of the variance of the inputs that a hidden cause explains, at least 0 and below 1. It may be all of
        what disturbs the plant.
    confidence : float, default=0.9
        Of the band of the effect without a hidden cause, to which that of the cause is added.

    Returns
    -------
    DataFrame
        One row per step and sensor: ``step, column, effect, low, high``, and ``voided_at``, the strength from which on
        the band holds zero: how strong a hidden cause has to be to void the sign of the effect.

    Raises
    ------
    ValueError
        As :meth:`counterfactual`, or if the server has no standard errors.

    Notes
    -----
    A cause that explains a share s of the variance of an input and moves the sensor in k rows by as much as all
    disturbances do, :math:`\sigma_k`, looks like an effect of :math:`\sqrt{s / (1 - s)}\, \sigma_k` for every standard
    deviation that the input moves (omitted-variable bias [1]_). `hidden_causes_` says whether a record shows a hidden
    cause; a record that does not is no proof that there is none.

    References
    ----------
    .. [1] Cinelli, Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of the Royal
           Statistical Society B 82(1).

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> table = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs).sensitivity("unit0", 0.0, 1.0, horizon=3)
    >>> table.columns.tolist()
    ['step', 'column', 'effect', 'low', 'high', 'voided_at']
    """
    check_is_fitted(self)
    check_covariances(self, "a band against hidden causes")
    from .sensitivity import asked_sensitivity

    return asked_sensitivity(self, n, u0, u1, horizon, strength, confidence)


def gain_table(self, *, confidence=0.9, times="rows"):
    """Gain, dead time, time constant and settling time of every input and sensor, with intervals.

    Parameters
    ----------
    confidence : float, default=0.9
        Of every interval.
    times : {"rows", "seconds"}, default="rows"
        What dead time, time constant and settling time are counted in; seconds for a record whose rows have times.

    Returns
    -------
    DataFrame
        One row per pair of an input (column of `input_`) and a sensor: ``input, output``, and of each of the
        following a value and the ends ``_low`` and ``_high`` of its interval. ``gain``: where the sensor ends
        after the input has moved by one and stayed there, in the units of both. In `times`: ``dead_time``, in
        which less than 2 % of the way is done; ``time_constant``, from the last of these until 63 % of it are;
        ``settling_time``, from the move until the sensor stays within 2 % of its end. NaN for times of
        pairs whose gain is zero, and for intervals where the server has no sampling covariance.

    Raises
    ------
    ValueError
        If no input moved in `fit`, `confidence` is no probability, or rows have no times.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> table = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs).gain_table()
    >>> table.shape
    (32, 14)
    """
    check_is_fitted(self)
    from .dynamics import asked_gains

    return asked_gains(self, confidence, times)


def step_response(self, input, output, *, n_steps=None, confidence=0.9):
    """What a sensor does after an input has moved by one and stayed there.

    Parameters
    ----------
    input, output : str
        Column of `input_` by its name, and sensor, ``unit__sensor``.
    n_steps : int, default=None
        Rows from the move on. None: until it has come to its end.
    confidence : float, default=0.9

    Returns
    -------
    DataFrame
        One row per row from that of the move, 0, on: ``step, response, response_low, response_high``.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> est.step_response("unit0__u0", "unit1__x0", n_steps=10).shape
    (10, 4)
    """
    check_is_fitted(self)
    from .dynamics import asked_step

    return asked_step(self, input, output, n_steps, confidence)


def frequency_response(self, input, output, *, frequencies=None, confidence=0.9):
    """Gain and phase of a sensor beside an input over frequency: the numbers of a Bode plot.

    Parameters
    ----------
    input, output : str
        As in :meth:`step_response`.
    frequencies : sequence of float, default=None
        Radians per row, from 0 to pi; None for 200 of them.
    confidence : float, default=0.9

    Returns
    -------
    DataFrame
        One row per frequency: ``frequency, gain, gain_low, gain_high, phase, phase_low, phase_high``, the phase in
        radians.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> est.frequency_response("unit0__u0", "unit1__x0", frequencies=[0.0, 0.1]).shape
    (2, 7)
    """
    check_is_fitted(self)
    from .dynamics import asked_frequencies

    return asked_frequencies(self, input, output, frequencies, confidence)
