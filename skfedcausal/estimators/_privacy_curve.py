"""What a budget buys: the plant that would be learned at every epsilon, tried out before anything is sent."""

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..privacy import PrivacyMechanism, UtilityWarning
from ..privacy.errors import largest_deviation

_KEPT = 0.5  # share of the links that a useful budget keeps, and of its own links that are right
LEVEL = 0.05


def privacy_curve(estimator, record, epsilons, n_draws, random_state):
    """Table of what is left at each epsilon."""
    mechanism = estimator.privacy
    stated = isinstance(mechanism, PrivacyMechanism) and mechanism.place == "record"
    if not stated or mechanism.delta is None or mechanism.clip_norm is None:
        raise ValueError(
            "privacy_curve varies the epsilon of noise on the record: give a GaussianMechanism with its delta, "
            "clip_norm and event_radius as `privacy`."
        )
    epsilons = np.sort(np.asarray(epsilons, dtype=float).ravel())
    if len(epsilons) == 0 or not (epsilons > 0).all():
        raise ValueError(f"epsilons={epsilons.tolist()}; give at least one, all positive.")
    seeds = check_random_state(random_state).randint(2**31 - 1, size=(len(epsilons), n_draws))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what noise does to a fit is what the table is for
        clear = _outcome(estimator, record, None)
        rows = []
        for epsilon, draws in zip(epsilons, seeds, strict=True):
            twins = [mechanism.trial(epsilon, int(seed)) for seed in draws]
            trials = [_beside(clear, _outcome(estimator, record, twin)) for twin in twins]
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
        warnings.warn(
            f"No epsilon up to {epsilons[-1]:.3g} leaves anything to be learned from this record: fewer than half of "
            "the links would be found, or measurements predicted no better than by their level. Use a longer record, "
            "a smaller event_radius, a tighter clip_norm, or no sharing at all.",
            UtilityWarning,
            stacklevel=3,
        )
    return table


class _Outcome(NamedTuple):
    """Links of a fit, its largest noise, and its forecast errors in standard deviations, judged at home."""

    links: set
    noise_to_signal: float
    forecast_error: float


def _outcome(estimator, record, mechanism):
    """Of a copy fitted in this process under a mechanism of its own, judged against the raw record."""
    trial = clone(estimator).set_params(privacy=mechanism, transport=None).fit(**record)
    with config_context(transform_output="default"):
        predicted = trial.set_output(transform="default").predict(**record, model="server")
    measured = trial._read(record["X"], record["inputs"], record["lengths"]).table()
    found = trial.links_[trial.links_["p_adjusted"] < LEVEL]
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
