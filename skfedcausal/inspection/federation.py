"""What the federation and a privacy budget cost and bring, tried out before anything is sent."""

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import clone

from ..arguments import Inputs, Lengths, Record, as_numbers, check_choice, warn
from ..client.orders import PooledTransport
from ..estimators._parts import AskedPlant
from ..federation.exchange import Communication
from ..privacy import PrivacyMechanism, UtilityWarning
from ..privacy.calibration import largest_deviation
from ..privacy.mechanism import trial_of
from ..seeding import generator_of
from ..server.links import questions
from ._asked import answering, asked_of, fitted
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator


# What the federation costs and brings: the same from pooled records, and each unit's gain from joining.


def benefit(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    held_out: float = 0.3,
    by: str = "unit",
) -> pd.DataFrame:
    """What every unit gains from joining, on rows that nothing was learned from.

    The server learns the plant, and every unit's model from its own message alone, from the first part of
    every episode, and predicts the last part one step ahead.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        Record to learn from and to predict, such as that of `fit`, of which an estimator keeps no series.
    inputs, lengths
        As in `fit`.
    held_out : float, default=0.3
        Share of every episode to predict.
    by : {"unit", "pair"}, default="unit"

    Returns
    -------
    DataFrame
        By unit: ``gain``, log-density of the unit's own measurements given the past of all units less
        that given its own past, in nats per row, and ``stderr``; ``rows`` with measurements of the unit
        that were predicted; ``neighbour``, whose messages it would miss most, with ``neighbour_gain``
        and ``neighbour_stderr``, or ``""`` where no such gain is significant (one-sided, 5 %);
        ``bytes_up, bytes_down``, what joining took in `fit`. By pair: ``cause, effect, gain, stderr``.

    Raises
    ------
    ValueError
        For a plant with inputs, or a share that episodes cannot be split at.

    Notes
    -----
    All from messages, which a privacy mechanism releases as everywhere, at its cost. The table stays
    behind as `benefit_`. Gains from a neighbour are what the learned plant predicts worse without
    that unit's messages; they need not add up. A unit without any connection in the plant is its own
    model and gains exactly zero. Otherwise the mean of the differences, given the two fitted models, has
    the standard error of Newey and West, so that a unit can test its gain [1]_ whatever the distribution
    of the noise. The units' sensor models (loadings and noise) were identified from all rows, by each
    alone, and are the same on both sides.

    References
    ----------
    .. [1] Giacomini, White (2006), Tests of conditional predictive ability, Econometrica 74(6).

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import benefit
    >>> X, _ = make_granger_plant(3, n_samples=5000, links=[("unit0", "unit2")], random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> benefit(est, X).loc["unit2", "neighbour"]
    'unit0'
    """
    check_choice("by", by, ("unit", "pair"))
    server, asked = answering(est, "benefit", "test_links"), est.asked_
    with asked.about(X, inputs, lengths) as units:
        found = questions.benefit(server, units.messages(), held_out=held_out)
    return found.by_pair() if by == "pair" else asked.keep_benefit(found.by_unit())


def oracle(est: "PlantEstimator", X: Record, *, inputs: Inputs = None, lengths: Lengths = None) -> "PlantEstimator":
    """The same estimator fitted by a central machine that holds all raw measurements.

    Only for data that may be pooled: a check of what the federation costs.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        The record of `fit`.
    inputs : list or dict, default=None
    lengths : sequence of int, default=None

    Returns
    -------
    estimator
        Of the same class, fitted with the same settings and unit models.

    Raises
    ------
    ValueError
        If the estimator learned from sites, or with noise inside training.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import oracle
    >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> oracle(est, X).transition_.shape == est.transition_.shape
    True
    """
    asked = fitted(est, AskedPlant, "oracle")
    asked.check_rows()
    if asked.at_sites:
        raise ValueError(
            "The oracle pools raw measurements, which sites keep: it exists only for records in one process. "
            "Compare with `fit(X)` where X may be pooled."
        )
    if est.privacy is not None and est.privacy.place != "record":
        raise ValueError(
            "The oracle pools what the units sent; noise inside training has no counterpart there. Use noise on "
            "the record, or none, to compare with it."
        )
    other = clone(est).set_params(communication=Communication(transport=PooledTransport))
    return asked.learned_from(other, asked.read(X, inputs, lengths))


def oracle_gap(est: "PlantEstimator", X: Record, *, inputs: Inputs = None, lengths: Lengths = None) -> float:
    """Relative distance of the plant matrices to the oracle's, in Frobenius norm.

    Rounding error. On a nearly degenerate plant (``server_.has_prior_``) messages in single or half
    precision can lead to other links.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        The record of `fit`.
    inputs : list or dict, default=None
    lengths : sequence of int, default=None

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the oracle learns another number of states, of a record that is not that of `fit`.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import oracle_gap
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> oracle_gap(FederatedGrangerEstimator().fit(X), X) < 1e-8
    True
    """
    central = oracle(est, X, inputs=inputs, lengths=lengths)
    pairs = [(getattr(est, name), getattr(central, name)) for name in est.asked_.acting]
    (own, other), *_ = pairs
    if len(own[0]) != len(other[0]):
        raise ValueError(
            f"Got a record from which the oracle learns {len(other[0])} states, and this estimator has "
            f"{len(own[0])}: the oracle is fitted to the record of `fit`. Give that one."
        )
    own, other = (np.hstack(matrices) for matrices in zip(*(_of_equal_lags(*pair) for pair in pairs), strict=True))
    return float(np.linalg.norm(own - other) / np.linalg.norm(other))


def _of_equal_lags(own, other):
    """Two stacks of matrices (p, n, .) side by side, with zeros for lags that one of them has not."""
    own, other = (stack.reshape(-1, *stack.shape[-2:]) for stack in (own, other))
    n_lags = max(len(own), len(other))
    return [np.hstack([*stack, *np.zeros((n_lags - len(stack), *stack.shape[1:]))]) for stack in (own, other)]


# What a privacy budget buys, tried out before anything is sent.

_KEPT = 0.5  # share of the links that a useful budget keeps, and of its own links that are right


def privacy_curve(
    est: "PlantEstimator",
    X: Record,
    epsilons: ArrayLike,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    n_draws: int = 1,
    random_state: Any = None,
) -> pd.DataFrame:
    """What a privacy budget buys, tried out where the raw record is, before anything is sent.

    Fits in this process at every epsilon, with noise that is thrown away and an account of its own.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted or not.
    X : list, dict, DataFrame or ndarray
        Choosing epsilon by the record that it is to protect reveals something about that record, which
        no statement covers: use a simulated, public or old one.
    epsilons : sequence of float
        To try in place of the epsilon of `privacy`, whose other settings are kept.
    inputs, lengths
        As in `fit`.
    n_draws : int, default=1
        Draws of the noise to average over at each epsilon.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    DataFrame
        One row per epsilon: ``epsilon``; ``noise_to_signal``, noise over the strongest signal of the unit
        where that is largest; ``links_kept``, share of the links found without noise; ``links_added``,
        number of others; ``forecast_error``, root mean square error of one-step-ahead predictions from
        the noised record, in standard deviations of the raw measurements; ``forecast_ratio``, that over
        the same without noise; ``useful``, whether half of the links are kept, not more are added, and
        forecasts beat the level. ``attrs["smallest_useful_epsilon"]`` is the smallest from which on
        all are, or NaN.

    Raises
    ------
    ValueError
        If `privacy` is no noise on the record that states its bounds, or an epsilon is not positive.

    Warns
    -----
    UtilityWarning
        If not even the largest epsilon is useful.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator, GaussianMechanism
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import privacy_curve
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, clip_norm=15.0, event_radius=0.5)
    >>> est = FederatedGrangerEstimator(privacy=mechanism)
    >>> privacy_curve(est, X, [1e4], random_state=0)["epsilon"].tolist()
    [10000.0]
    """
    asked_of(est, AskedPlant, "privacy_curve")
    record = {"X": X, "inputs": inputs, "lengths": lengths}
    mechanism: Any = est.privacy
    stated = isinstance(mechanism, PrivacyMechanism) and mechanism.place == "record"
    if not stated or mechanism.delta is None or mechanism.clip_norm is None:
        raise ValueError(
            "privacy_curve varies the epsilon of noise on the record: give a GaussianMechanism with its delta, "
            "clip_norm and event_radius as `privacy`."
        )
    epsilons = np.sort(as_numbers(epsilons, "epsilons"))
    if epsilons[0] <= 0 or n_draws < 1:
        raise ValueError(f"Got epsilons={epsilons.tolist()} and n_draws={n_draws}; give numbers that are all positive.")
    seeds = generator_of(random_state, "privacy_curve").randint(2**31 - 1, size=(len(epsilons), n_draws))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what noise does to a fit is what the table is for
        clear = _outcome(est, record, None)
        rows = []
        for epsilon, draws in zip(epsilons, seeds, strict=True):
            twins = [trial_of(mechanism, epsilon, int(seed)) for seed in draws]
            trials = [_beside(clear, _outcome(est, record, twin)) for twin in twins]
            rows.append({"epsilon": epsilon, **pd.DataFrame(trials).mean().to_dict()})
    table = pd.DataFrame(rows)
    table["useful"] = table["forecast_error"] < 1
    if clear.links:
        kept = table["links_kept"] * len(clear.links)
        table["useful"] &= (table["links_kept"] >= _KEPT) & (table["links_added"] <= kept)
    useless = np.flatnonzero(~table["useful"])
    enough = table["epsilon"].iloc[useless.max(initial=-1) + 1 :]  # from the smallest on all are useful
    table.attrs["smallest_useful_epsilon"] = float(enough.min())
    if enough.empty:
        warn(
            f"No epsilon up to {epsilons[-1]:.3g} leaves anything to be learned from this record: fewer than half of "
            "the links would be found, or measurements predicted no better than by their level. Use a longer record, "
            "a smaller event_radius, a tighter clip_norm, or no sharing at all.",
            UtilityWarning,
        )
    return table


class _Outcome(NamedTuple):
    """Links of a fit, its largest noise, and its forecast errors in standard deviations, judged locally."""

    links: set
    noise_to_signal: float
    forecast_error: float


def _outcome(est, record, mechanism):
    """Of a copy fitted in this process under a mechanism of its own, judged against the raw record."""
    trial = clone(est).set_params(privacy=mechanism, communication__transport=None).fit(**record)
    with config_context(transform_output="default"):
        predicted = trial.set_output(transform="default").predict(**record, model="server")
    measured = trial.asked_.read(**record).table()
    found = trial.links_[trial.links_["p_adjusted"] < TUNING.privacy_level]
    errors, ratios = [], [0.0]
    for name, where in zip(trial.layout_.names, trial.layout_.output_places()[0], strict=True):
        Y, scale = measured[:, where], np.nanstd(measured[:, where], axis=0)
        moving = scale > 0
        errors.append(np.nanmean(((Y - predicted[:, where])[:, moving] / scale[moving]) ** 2))
        if name in trial.noise_covariance_:
            noise = np.diag(trial.noise_covariance_[name]).max()
            ratios.append(np.sqrt(noise) / largest_deviation(Y))
    links = set(zip(found["cause"], found["effect"], found["kind"], strict=True))
    return _Outcome(links, max(ratios), float(np.sqrt(np.mean(errors))))


def _beside(clear, noised):
    """What noise leaves of a fit."""
    return {
        "noise_to_signal": noised.noise_to_signal,
        "links_kept": len(noised.links & clear.links) / len(clear.links) if clear.links else np.nan,
        "links_added": len(noised.links - clear.links),
        "forecast_error": noised.forecast_error,
        "forecast_ratio": noised.forecast_error / clear.forecast_error,
    }
