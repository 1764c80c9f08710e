"""What is asked of the links of a fitted plant, and how they scatter over resampled records."""

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arguments import Inputs, Lengths, Record
from ..containers.rows import sampling_period
from ..estimators._parts import AskedPlant
from ..estimators._plant import state_covariance
from ..optional import import_optional
from ..seeding import generator_of
from ..server.links import questions
from ..server.links.curves import slopes_at
from ..server.links.grades import MEASURED, told_links
from ..server.watching.thresholds import steps_between_alarms
from ._asked import answering, asked_of, fitted

if TYPE_CHECKING:
    from ..displays import ValidityDisplay
    from ..estimators._plant import PlantEstimator


# What is asked of the links of a fitted plant.

_EFFECTS = ("cause", "effect", "verdict", "cause_tag", "effect_tag", "gain", "correlation", "delay", "delay_time")


def link_effects(est: "PlantEstimator") -> pd.DataFrame:
    """What every link does in terms of measurements, with its sign and in their units.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.

    Returns
    -------
    DataFrame
        One row per link between states with the verdict "influence" or "coupled": ``cause, effect, verdict``;
        ``cause_tag`` and ``effect_tag``, the sensors that show it best; ``gain``, the expected change of the
        effect's tag through this link alone, one delay after the cause's tag stood a unit of its own higher;
        ``correlation``, the same in standard deviations of both; ``delay`` in rows and ``delay_time`` in seconds,
        NaN without times.

    Raises
    ------
    ValueError
        If units at sites of their own cannot be asked.

    Notes
    -----
    With states h of covariance P, the block M of the lag that acts most, and sensors ``y = C h + noise`` of cause k
    and effect m, the gains between their tags are ``C_m M P_k C_k' / var(C_k h)``: what the regression on the
    cause's tag says of the states that act. Of a link that rests on a held-out gain M is that of a regression on
    what single rows measure of the states, so that their noise makes gains smaller; of a curved one it is the line
    through the record, which may be flat where the curve is not. Units tell their C, one packet
    each.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import link_effects
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> table = link_effects(FederatedGrangerEstimator().fit(X))
    >>> table[["cause", "effect", "delay"]].to_string(index=False)
    'cause effect  delay\\nunit0  unit2    1.0'
    """
    asked = fitted(est, AskedPlant, "link_effects")
    with asked.models() as units:
        C, columns = units.loadings()
    lags = est.lag_transitions_
    P = state_covariance(lags, est.process_cov_)
    variance = np.einsum("ij,jk,ik->i", C, P, C)
    found = told_links(est.links_[est.links_["kind"] == "state"])
    rows, seconds = [], np.nan if asked.row_time is None else asked.row_time.total_seconds()
    for link in found.to_dict("records"):
        cause, effect = (est.state_slices_[link[end]] for end in ("cause", "effect"))
        is_graded = link["basis"] in MEASURED
        blocks = (est.server_.carried_ if is_graded else lags)[:, effect, cause]
        M = blocks[np.argmax(np.linalg.norm(blocks, axis=(1, 2)))]
        of_cause, of_effect = (np.flatnonzero(np.abs(C[:, at]).sum(axis=1)) for at in (cause, effect))
        gains = C[of_effect][:, effect] @ M @ P[cause, cause] @ C[of_cause][:, cause].T / variance[of_cause]
        scaled = gains * np.sqrt(variance[of_cause] / variance[of_effect][:, None])
        # all alike between units of one state: the first of those that tie up to rounding
        i, j = np.unravel_index(np.abs(scaled).round(9).argmax(), scaled.shape)
        tags = columns[of_cause[j]], columns[of_effect[i]]
        gain, delay = (gains[i, j], scaled[i, j]), link["lag" if is_graded else "delay"]
        rows.append((link["cause"], link["effect"], link["verdict"], *tags, *gain, delay, delay * seconds))
    return pd.DataFrame(rows, columns=list(_EFFECTS))


def spectrum(
    est: "PlantEstimator",
    cause: str,
    effect: str,
    *,
    conditional: bool = True,
    n_frequencies: int | None = None,
    confidence: float | None = None,
) -> pd.DataFrame:
    """Geweke's measure of the influence of one unit on another over frequency.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    cause, effect : str
        Names of units.
    conditional : bool, default=True
        Given the measurements of all other units; False looks at the two units alone.
    n_frequencies : int, default=None
        None takes as many as the average over frequency needs to converge.
    confidence : float, default=None
        Coverage of intervals at each frequency by the delta method, columns ``low, high``; None gives
        none.

    Returns
    -------
    DataFrame
        Columns ``frequency``, in radians per time step up to pi, and ``measure``. ``attrs["total"]`` is
        the measure of the time domain, and ``attrs["averages_to_total"]`` says whether Geweke's root
        condition holds, so that the mean over frequency is the total.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import spectrum
    >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    >>> spectrum = spectrum(FederatedGrangerEstimator().fit(X), "unit0", "unit1")
    >>> bool(abs(spectrum["measure"].mean() - spectrum.attrs["total"]) < 1e-6)
    True
    """
    settings = {"conditional": conditional, "n_frequencies": n_frequencies, "confidence": confidence}
    return answering(est, "spectrum").spectrum(cause, effect, **settings)


def link_shape(est: "PlantEstimator", cause: str, effect: str, *, confidence: float = 0.9) -> pd.DataFrame:
    """What a state of one unit adds to the next state of another along a curve, beside the line.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    cause, effect : str
        Names of units.
    confidence : float, default=0.9
        Coverage of the band at each point.

    Returns
    -------
    DataFrame
        One row per point, a quantile of the cause's state, and level: ``state``, its value; ``other`` and ``level``,
        the unit whose state, or its size, it multiplies and the value of that, "" and 0 where there is none, else two,
        at the quantiles .16 and .84; ``adds``, ``low``, ``high``, what is added and its band; ``line``, what the line
        alone says. All in standard deviations of the states, additions less their mean.

    Raises
    ------
    ValueError
        If no curve was found from `cause` to `effect`, or curves were not looked at.

    Notes
    -----
    Of units with several states it is the pair whose curve is the largest, given other units that act on the effect:
    twenty kinks at even steps, and these times the other state, whose size comes from the evidence. Bands are those of
    Bayesian splines [1]_ and know nothing of the choice of the pair: in 700 to 4,000 rows of simulated curves they held
    .84 to .98 where 90 % were asked for. Signs of states are arbitrary.

    References
    ----------
    .. [1] Nychka (1988), Bayesian confidence intervals for smoothing splines, Journal of the American Statistical
           Association 83.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.inspection import link_shape
    >>> rng = np.random.default_rng(0)
    >>> h = rng.normal(size=(1000, 2))
    >>> for t in range(1, 1000):
    ...     h[t] += 0.5 * h[t - 1] + [0, abs(h[t - 1, 0])]
    >>> X = {f"unit{m}": h[:, [m]] + 0.1 * rng.normal(size=(1000, 2)) for m in range(2)}
    >>> shape = link_shape(FederatedGrangerEstimator().fit(X), "unit0", "unit1")
    >>> bool(np.ptp(shape["adds"]) > 5 * np.ptp(shape["line"]))
    True
    """
    return answering(est, "link_shape", "shapes_").shapes_.of_pair(cause, effect, confidence)


def link_slopes(
    est: "PlantEstimator", cause: str, effect: str, at: ArrayLike | None = None, *, confidence: float = 0.9
) -> pd.DataFrame:
    """How much the next state of one unit moves with a state of another, by operating point: its Jacobian.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    cause, effect : str
        Names of units.
    at : array-like of shape (n_points,), default=None
        States of the cause, in its standard deviations. None takes the quantiles .1, .25, .5, .75, .9 of those seen.
    confidence : float, default=0.9
        Coverage of each interval.

    Returns
    -------
    DataFrame
        One row per state and level: ``state``; ``other`` and ``level`` as in :func:`link_shape`; ``slope``, the mean
        slope over half a standard deviation either way, with ``low`` and ``high``, its interval; ``line``, that of the
        line alone; ``verdict``, "rises" or "falls", or "cannot tell" where the interval holds zero and where hardly any
        row was seen (below the quantile .01 or above .99, NaN). All in standard deviations of the states, whose signs
        are arbitrary.

    Raises
    ------
    ValueError
        For unknown units, or a server that tells no slopes.

    Notes
    -----
    Where a curve was found it is that of :func:`link_shape`, whose differences these are. In 2,000 rows behind noisy
    sensors intervals held .87 to .94 of saturation, squares, sizes, waves, products and lines where 90 % were asked, in
    800 rows .84 to .97; of steps .73 to .78. Elsewhere it is the line with its standard error, the same at all states;
    between units of several states its size. With a :class:`~skfedcausal.papers.RegressorServer` slopes are means of
    the regressor's own at tenths of the rows, without an interval: what a penalty flattens does not show in its
    scatter, and intervals by the jackknife held .3 to .75 of 90 % with kernel ridge.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.inspection import link_slopes
    >>> rng = np.random.default_rng(0)
    >>> h = rng.normal(size=(1000, 2))
    >>> for t in range(1, 1000):
    ...     h[t] += 0.5 * h[t - 1] + [0, abs(h[t - 1, 0])]
    >>> X = {f"unit{m}": h[:, [m]] + 0.1 * rng.normal(size=(1000, 2)) for m in range(2)}
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> slopes = link_slopes(est, "unit0", "unit1", [-1.5, 0, 1.5, 9])
    >>> slopes["verdict"].eq("cannot tell").tolist(), bool(slopes["slope"][0] * slopes["slope"][2] < 0)
    ([False, True, False, True], True)
    """
    return slopes_at(answering(est, "link_slopes", "tells_slopes").slopes_, cause, effect, at, confidence)


def link_intervals(est: "PlantEstimator", confidence: float = 0.95, *, geweke: bool = False) -> pd.DataFrame:
    """Intervals of the strength of every link between states, and what would decide them.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    confidence : float, default=0.95
        Coverage of each interval, not of all together.
    geweke : bool, default=False
        Also intervals of Geweke's measure: by the delta method on the scale of its root, and like the
        measure given the links in the model. Takes a few seconds for 30 units. Of plants of several lags, or of
        more than 32 units, they go with the square of the strength of the link, which alone is taken to be
        uncertain.

    Returns
    -------
    DataFrame
        One row per ordered pair: ``cause, effect, norm``; ``low, high``, the interval, `low` zero
        where no influence is compatible with the record; ``deciding_rows``, length of a record of this
        kind in which an influence of strength `margin` is separated from none four times in five; with
        `geweke` also ``geweke, geweke_low, geweke_high``, the ends NaN where the plant has no way from
        cause to effect, so that the measure is exactly zero.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import link_intervals
    >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    >>> table = link_intervals(FederatedGrangerEstimator().fit(X))
    >>> bool((table["low"] <= table["norm"]).all())
    True
    """
    return answering(est, "link_intervals").link_intervals(confidence, geweke=geweke)


def changed_links(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    alpha: float = 0.05,
    false_alarm_rate: Any = None,
) -> pd.DataFrame:
    """Which links and units have changed since the fit: tested, dated, with gain and delay before and after.

    Every row is a test of "this has changed" against everything else being as it was learned. Both the noise of
    the new record and that of what was learned count. A change is supposed to hold from some row on to the end;
    what one change explains is not reported of other rows.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        New record of the units of `fit`, of 50 rows at least; a change shows after some hundred.
    inputs, lengths
        As in `fit`.
    alpha : float, default=0.05
        Chance of any false report in one call, over all rows of the table.
    false_alarm_rate : float or str, optional
        Of a watch, instead of `alpha`: false reports per row, or for instance ``"1 per week"`` for frames with a
        DatetimeIndex. A call about ``n`` rows is given as much of the budget as they take.

    Returns
    -------
    DataFrame
        One row per ordered pair of units, and one per unit (cause and effect are the same), those that changed
        first; a unit's own row comes behind the rows of pairs that explain it.

        ``changed`` is whether ``p_adjusted`` (family-wise) is at most the level. ``verdict`` is "lost" (less than
        a quarter of its gain is left), "weaker", "stronger", "delayed" (acts at another lag), "new", "unchanged",
        or "cannot tell" where nothing was found and the record is too short or too noisy to have shown the loss
        of the link, or a new one as strong as the plant's usual ones.
        ``gain_before`` and ``gain_after`` are strengths as in
        `links_`, ``delay_before`` and ``delay_after`` lags in rows. Of a unit's own row, gains are the size of
        what it does by itself, 1 in the record of the fit. ``since`` is the row the change dates from, by its
        label where X has an index.

    Notes
    -----
    The innovations ``w[t]`` of a unit, given the past of all and whitened, are regressed on what a change of its
    coefficients would add to them: of a link's gain, of its lag, of a block that the plant has not, of the unit's
    own dynamics, level and variance. With the information ``G`` of the new record and ``r G`` of that of the fit,
    ``r / (1 + r) s' G^-1 s`` of the score ``s`` is chi-squared where nothing has changed. The smallest p-value over
    hypotheses and starts is calibrated by innovations drawn anew from the record's own; rows share the level by
    Holm's rule: 0.6 of it for links of the plant, mostly for less gain, 0.3 for other pairs, 0.1 for units.

    A plant that misses something steady (a season, a nonlinearity) shows it here as a change.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import changed_links
    >>> import numpy as np
    >>> A = np.kron([[0.6, 0.0], [0.4, 0.6]], np.eye(2))
    >>> X, _ = make_granger_plant(2, transition=A, random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> A[2:, :2] = 0.0
    >>> Y, _ = make_granger_plant(2, transition=A, n_samples=400, random_state=0)
    >>> table = changed_links(est, Y)
    >>> table.loc[table["changed"], ["cause", "effect", "verdict"]].to_string(index=False)
    'cause effect verdict\\nunit0  unit1    lost'
    """
    server, asked = answering(est, "changed_links", "test_links"), est.asked_
    with asked.about(X, inputs, lengths) as units:
        level = level_of(alpha, false_alarm_rate, units.n_samples, units.index)
        table = questions.changed_links(server, units.messages(), level)
        return dated(settled(table, asked.undecidable), units.index)


def links_over_time(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    piece: int | None = None,
) -> pd.DataFrame:
    """Links in pieces of time: which stay the same along a record, and between which rows the others hold.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        Record to look at, such as that of `fit`, of which an estimator keeps no series.
    inputs, lengths
        As in `fit`.
    piece : int, optional
        Rows of the pieces that are compared: a link changes between pieces, not within. None for an eighth of the
        record, 200 rows at least. Episodes are cut on their own, short rests join the piece before.

    Returns
    -------
    DataFrame
        One row per ordered pair of units and stretch of time in which its link is the same: ``cause, effect``;
        ``start`` and ``stop``, its first row and the one behind its last, by their labels where X has an index (of
        the last stretch the label of the last row); ``norm, stderr, p_value, verdict`` as in `links_`, of that
        stretch alone; ``changes``, whether the link has several stretches, which is where ``p_adjusted``, the
        family-wise p-value of "this link is the same in all pieces", is at most the server's ``alpha``.

    Raises
    ------
    ValueError
        For units whose sensors do not determine their states, or a record of one piece.

    Notes
    -----
    The plant with the links of the whole record is learned anew from every piece, in the same standardised states;
    a pair without a link is estimated from the scores there. For estimates ``b_k`` with covariances ``V_k``,
    ``sum_k (b_k - b)' V_k^-1 (b_k - b)`` around their weighted mean b is chi-squared where the link is the same in
    all of them [1]_. Of a link that is not, the stretches are those with the least misfit at a price of ``dof
    log(n_samples)`` for each change [2]_. All with one lag, also where the plant has several: links that act later
    show in what of the cause is still there.

    References
    ----------
    .. [1] Cochran (1954), The combination of estimates from different experiments, Biometrics 10(1).
    .. [2] Yao (1988), Estimating the number of change-points via Schwarz' criterion, Statistics & Probability
           Letters 6(3).

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import links_over_time
    >>> A = np.kron([[0.6, 0.0], [0.4, 0.6]], np.eye(2))
    >>> B = np.kron([[0.6, 0.0], [0.0, 0.6]], np.eye(2))
    >>> parts = [make_granger_plant(2, transition=a, n_samples=1000, random_state=k)[0] for a, k in ((A, 0), (B, 10))]
    >>> X = {name: np.vstack([part[name] for part in parts]) for name in parts[0]}
    >>> table = links_over_time(FederatedGrangerEstimator().fit(X, lengths=[1000, 1000]), X, lengths=[1000, 1000])
    >>> table[table["changes"]][["cause", "effect", "start", "stop", "verdict"]]
       cause effect  start  stop      verdict
    1  unit0  unit1      0  1000    influence
    2  unit0  unit1   1000  2000  cannot tell
    """
    server = answering(est, "links_over_time", "test_links")
    with est.asked_.about(X, inputs, lengths) as units:
        return labelled(questions.links_over_time(server, units.messages(), piece), units.index)


def to_networkx(est: "PlantEstimator", *, undecided: bool = False) -> Any:
    """The links as a graph of networkx (extra ``graph``).

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    undecided : bool, default=False
        Also the pairs with the verdicts "coupled", "cannot tell" and "shared driver".

    Returns
    -------
    networkx.MultiDiGraph
        One node per unit. One edge from cause to effect per influence, its key the `kind` and its
        attributes the other columns of `links_`; ``weight`` is the norm.

    Raises
    ------
    ImportError
        Without networkx.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator, inspection
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], link_strength=0.4, random_state=0)
    >>> graph = inspection.to_networkx(FederatedGrangerEstimator().fit(X))
    >>> list(graph.edges(keys=True))
    [('unit0', 'unit2', 'state')]
    """
    fitted(est, AskedPlant, "to_networkx")
    networkx = import_optional("networkx", "graph", "A graph of the links")
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from(est.client_names_)
    kept = ["influence", "coupled", "cannot tell", "shared driver"] if undecided else ["influence"]
    links: list[dict[str, Any]] = est.links_.to_dict("records")  # type: ignore[assignment]  # columns have names
    for link in links:
        if link["verdict"] in kept:
            cause, effect, kind = (link.pop(key) for key in ("cause", "effect", "kind"))
            graph.add_edge(cause, effect, key=kind, weight=link["norm"], **link)
    return graph


def validity_display(est: "PlantEstimator") -> "ValidityDisplay":
    """Picture of `validity_` (extra ``plot``).

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.

    Returns
    -------
    ValidityDisplay

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import validity_display
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> validity_display(FederatedGrangerEstimator().fit(X)).failed.sum()
    np.int64(0)
    """
    asked_of(est, AskedPlant, "validity_display")
    from ..displays import ValidityDisplay  # pictures ask functions of this room

    return ValidityDisplay.from_estimator(est)


# -- changes ---------------------------------------------------------------------------------------


def level_of(alpha, false_alarm_rate, n_samples, index):
    """Chance of any false report about a record, from itself or from a budget of reports over time."""
    if false_alarm_rate is None:
        if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < float(alpha) < 1:
            raise ValueError(f"Got alpha={alpha!r}; give the chance of any false report, between 0 and 1.")
        return float(alpha)
    is_number = isinstance(false_alarm_rate, Real) and not isinstance(false_alarm_rate, bool)
    if not (isinstance(false_alarm_rate, str) or (is_number and 0 < float(false_alarm_rate) < 1)):
        raise ValueError(
            f"Got false_alarm_rate={false_alarm_rate!r}; give false reports per row, between 0 and 1, or for instance "
            "'1 per week'."
        )
    return float(-np.expm1(-n_samples / steps_between_alarms(false_alarm_rate, sampling_period(index))))


def dated(table, index):
    """The table with labels of the record's rows for their numbers, where rows have labels."""
    if index is None:
        return table
    known = table["since"].notna()
    labels = pd.Series(index[table.loc[known, "since"].astype(int)], index=table.index[known])
    return table.assign(since=labels.reindex(table.index))


def labelled(table, index):
    """The table with labels of the record's rows for those between which something holds, the last one for its end."""
    if index is None:
        return table
    stops = table["stop"].to_numpy()
    return table.assign(start=index[table["start"].to_numpy()], stop=index[np.minimum(stops, len(index) - 1)])


def settled(table, undecidable):
    """The table in which nothing has changed that noise may hide."""
    if not undecidable:
        return table
    return table.assign(changed=False, verdict="cannot tell", p_value=1.0, p_adjusted=1.0, since=np.nan)


# How links scatter, and which are found again, over resampled records.


def bootstrap_links(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    n_resamples: int = 200,
    method: str = "blocks",
    block_length: int | str | None = None,
    confidence: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """How the estimates of links scatter over resampled records, as a check of their standard errors.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        Record to learn the plant from, such as that of `fit`, NaN where missing.
    inputs, lengths
        As in `fit`.
    n_resamples : int, default=200
    method : {"blocks", "parametric"}, default="blocks"
        "blocks" draws blocks of the record with replacement, whatever its noise is like; "parametric"
        simulates records of the fitted plant with Gaussian noise.
    block_length : int or "episodes", default=None
        Rows of a block, or whole episodes. None takes four times the memory of the slowest state, at
        least the cube root of the number of rows.
    confidence : float, default=0.95
        Coverage of the intervals of Geweke's measure.
    random_state : int, RandomState instance or None, default=None
        None takes that of the estimator. The same numbers come for any `n_jobs`.
    n_jobs : int, default=None
        Resampled records that are fitted at the same time.

    Returns
    -------
    DataFrame
        One row per link: ``cause, effect, kind, norm``; ``stderr`` and ``p_value`` as in `links_`;
        ``bootstrap_stderr``, scatter of the estimates along the estimate; ``bootstrap_p_value``, share of
        records whose estimate is as far from what they were drawn from as the estimate is from zero;
        ``geweke, geweke_low, geweke_high``. ``attrs["not_converged"]`` counts refits that did not.

    Raises
    ------
    ValueError
        If the sensors of a unit do not determine its states, the record has fewer than ten blocks, or for
        an unknown method.

    Notes
    -----
    The server draws from messages, nothing else crosses. A block of a complete record enters by its
    lagged products [1]_, so that no transition is made up at its ends; one of a record with gaps becomes
    an episode of the exact likelihood. The plant is fitted again with the links it has; like all tests
    the results are conditional on them. p-values cannot be below ``1 / (n_resamples + 1)``.

    References
    ----------
    .. [1] Künsch (1989), The jackknife and the bootstrap for general stationary observations, Annals of
           Statistics 17(3).

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import bootstrap_links
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> table = bootstrap_links(est, X, n_resamples=50, random_state=0)
    >>> table.query("bootstrap_p_value < 0.05")[["cause", "effect"]].to_string(index=False)
    'cause effect\\nunit0  unit2'
    """
    drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
    how = {"method": method, "confidence": confidence}
    return _resampled(est, "bootstrap_links", (X, inputs, lengths), random_state, **how, **drawing)


def stable_links(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    n_resamples: int = 50,
    threshold: float = 0.75,
    block_length: int | str | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Links that the search finds in most halves of a record: stability selection.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        Record to learn the plant from, such as that of `fit`, NaN where missing.
    inputs, lengths
        As in `fit`.
    n_resamples : int, default=50
        Random divisions of the record's blocks into two halves.
    threshold : float, default=0.75
        Share of the halves from which on a link counts as stable, above 0.5.
    block_length, random_state, n_jobs
        As in :func:`bootstrap_links`.

    Returns
    -------
    DataFrame
        ``cause, effect, kind``; ``share`` of the halves in which the search finds the link;
        ``stable``, whether that is at least the threshold. ``attrs["mean_selected"]`` is the number q of
        links found in a half on average, ``attrs["expected_false"]`` the bound ``q**2 / ((2 threshold -
        1) n_pairs)`` of Meinshausen and Bühlmann [1]_ on the expected number of stable links that are
        none.

    Raises
    ------
    ValueError
        If the sensors of a unit do not determine its states, the record has fewer than ten blocks, or the
        threshold is not above 0.5.

    Notes
    -----
    Both halves of a division are searched, as complementary pairs [2]_. The bound supposes that pairs
    without a link are exchangeable and found no more often than by guessing. Half a record finds weak
    links less often than the whole.

    References
    ----------
    .. [1] Meinshausen, Bühlmann (2010), Stability selection, Journal of the Royal Statistical Society B
           72(4).
    .. [2] Shah, Samworth (2013), Variable selection with error control: another look at stability
           selection, Journal of the Royal Statistical Society B 75(1).

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import stable_links
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
    >>> table = stable_links(FederatedGrangerEstimator().fit(X), X, n_resamples=10, random_state=0)
    >>> table.query("stable")[["cause", "effect"]].to_string(index=False)
    'cause effect\\nunit0  unit2'
    """
    drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
    return _resampled(est, "stable_links", (X, inputs, lengths), random_state, threshold=threshold, **drawing)


def _resampled(est, question, record, random_state, **settings):
    """Ask the server with a seed, from the estimator's own random state where none is given."""
    server = answering(est, question, "test_links")
    chosen = est.random_state if random_state is None else random_state
    seed = int(generator_of(chosen, question).randint(2**31 - 1))
    with est.asked_.about(*record) as units:
        return getattr(questions, question)(server, units.messages(), random_state=seed, **settings)
