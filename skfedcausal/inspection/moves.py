"""Moves of inputs: schedules that bring sensors to targets, and experiments that decide links."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..arguments import check_confidence
from ..estimators._asked import AskedInputs
from ..given import Inputs, Lengths, Record
from ._asked import fitted
from .designs import designed_experiment
from .schedules import Situation, wished

if TYPE_CHECKING:
    from ..estimators.counterfactual import FederatedCounterfactualEstimator
    from .designs import Experiment
    from .schedules import Reach


def reach(
    est: "FederatedCounterfactualEstimator",
    target: Any,
    *,
    inputs: str | Sequence[str],
    bounds: Mapping[str, Any],
    by: int,
    rates: Mapping[str, Any] | None = None,
    hold: int | None = None,
    X: Record | None = None,
    confidence: float = 0.9,
    record_inputs: Inputs = None,
    lengths: Lengths = None,
) -> "Reach":
    """A schedule of inputs that brings sensors to targets, with what it promises.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    target : dict of str to float
        Value by sensor, ``unit__sensor``, of any units.
    inputs : str or list of str
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
    where no schedule within it is enough. The band is that of a forecast, see `forecast`, and of the effect.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import reach
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> limits = {"unit0__u0": (-3, 3)}
    >>> reach(est, {"unit0__x0": 1e6}, inputs=list(limits), bounds=limits, by=10, X=X,
    ...     record_inputs=truth.inputs).verdict
    'not reachable'
    """
    asked = fitted(est, AskedInputs, "reach")
    check_confidence(confidence)
    effects = asked.effects()
    effects.check_covariances("a plan")
    wish = wished(effects.spec, target, inputs, bounds, by, rates, hold)
    with asked.about(X, record_inputs, lengths) as units:
        return Situation(effects, units, wish, confidence).answer()


def experiment(
    est: "FederatedCounterfactualEstimator",
    cause: str,
    effect: str,
    *,
    inputs: str | Sequence[str],
    bounds: Mapping[str, Any],
    rows: Any,
    kind: str = "state",
    rates: Mapping[str, Any] | None = None,
    now: Any = None,
) -> "Experiment":
    """The moves of inputs within bounds that would best decide whether one unit acts on another.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    cause, effect : str
        Units of the link that is to be decided.
    inputs : str or list of str
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
    >>> from skfedcausal.inspection import experiment
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> plan = experiment(est, "unit0", "unit1", inputs=["unit0__u0"], bounds={"unit0__u0": (-3, 3)}, rows=100)
    >>> plan.rows_needed <= plan.random_rows_needed
    True
    """
    effects = fitted(est, AskedInputs, "experiment").effects()
    effects.check_covariances("an experiment")
    return designed_experiment(effects, est.links_, cause, effect, inputs, bounds, rows, kind, rates, now)
