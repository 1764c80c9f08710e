"""What a budget buys: the plant that would be learned at every epsilon, tried out before anything is sent."""

import warnings

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
            "privacy_curve varies the epsilon of noise on the record: give a GaussianMechanism with its "
            "delta, clip_norm and event_radius as `privacy`."
        )
    epsilons = np.sort(np.asarray(epsilons, dtype=float).ravel())
    if len(epsilons) == 0 or not (epsilons > 0).all():
        raise ValueError(f"epsilons={epsilons.tolist()}; give at least one, all positive.")
    seeds = check_random_state(random_state).randint(2**31 - 1, size=(len(epsilons), n_draws))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what noise does to a fit is what the table is for
        clear = _Outcome(_tried(estimator, record, None))
        rows = []
        for epsilon, draws in zip(epsilons, seeds, strict=True):
            trials = [_trial(estimator, record, epsilon, seed, clear) for seed in draws]
            rows.append({"epsilon": epsilon, **pd.DataFrame(trials).mean().to_dict()})
    table = pd.DataFrame(rows)
    table["useful"] = _useful(table, clear)
    table.attrs["smallest_useful_epsilon"] = smallest = _smallest(table)
    if np.isnan(smallest):
        warnings.warn(
            f"No epsilon up to {epsilons[-1]:.3g} leaves anything to be learned from this record: fewer than "
            "half of the links would be found, or measurements predicted no better than by their level. Use "
            "a longer record, a smaller event_radius, a tighter clip_norm, or no sharing at all.",
            UtilityWarning,
            stacklevel=3,
        )
    return table


def _trial(estimator, record, epsilon, seed, clear):
    twin = estimator.privacy.trial(epsilon, int(seed))
    return _Outcome(_tried(estimator, record, twin)).against(clear)


def _tried(estimator, record, mechanism):
    """Copy fitted in this process under a mechanism of its own, its forecasts and the raw record."""
    trial = clone(estimator).set_params(privacy=mechanism, transport=None).fit(**record)
    with config_context(transform_output="default"):
        predicted = trial.set_output(transform="default").predict(**record, model="server")
    return trial, predicted, trial._read(record["X"], record["inputs"], record["lengths"]).table()


class _Outcome:
    """Links and forecasts of a fit, judged at home against the raw record."""

    def __init__(self, trial):
        fitted, predicted, measured = trial
        table = fitted.links_
        found = table[table["p_adjusted"] < LEVEL]
        self.links = set(zip(found["cause"], found["effect"], found["kind"], strict=True))
        self.errors, self.noise_to_signal = [], []
        positions, _ = fitted.layout_.output_places()
        for name, where in zip(fitted.layout_.names, positions, strict=True):
            Y, scale = measured[:, where], np.nanstd(measured[:, where], axis=0)
            moving = scale > 0
            self.errors.append(np.nanmean(((Y - predicted[:, where])[:, moving] / scale[moving]) ** 2))
            if name in fitted.noise_covariance_:
                noise = np.diag(fitted.noise_covariance_[name]).max()
                self.noise_to_signal.append(np.sqrt(noise) / largest_deviation(Y))

    @property
    def forecast(self):
        """Root mean square of the prediction errors in standard deviations of the measurements."""
        return float(np.sqrt(np.mean(self.errors)))

    def against(self, clear):
        kept = len(self.links & clear.links) / len(clear.links) if clear.links else np.nan
        return {
            "noise_to_signal": max(self.noise_to_signal),
            "links_kept": kept,
            "links_added": len(self.links - clear.links),
            "forecast_error": self.forecast,
            "forecast_ratio": self.forecast / clear.forecast,
        }


def _useful(table, clear):
    predicts = table["forecast_error"] < 1
    if not clear.links:
        return predicts
    kept = table["links_kept"] * len(clear.links)
    return predicts & (table["links_kept"] >= _KEPT) & (table["links_added"] <= kept)


def _smallest(table):
    """Smallest epsilon from which on all are useful; NaN if the largest is not."""
    useless = np.flatnonzero(~table["useful"])
    first = useless[-1] + 1 if len(useless) else 0
    return float(table["epsilon"].iloc[first]) if first < len(table) else np.nan
