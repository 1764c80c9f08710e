"""What a privacy budget buys, tried out before anything is sent."""

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import clone

from ..arguments import as_numbers
from ..callers import warn
from ..estimators._asked import AskedPlant
from ..given import Inputs, Lengths, Record
from ..privacy import PrivacyMechanism, UtilityWarning
from ..privacy.errors import largest_deviation
from ..privacy.mechanism import trial_of
from ..seeding import generator_of
from ._asked import asked_of
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator

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
