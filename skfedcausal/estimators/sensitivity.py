"""How wrong an effect may be if a cause that nobody measures moves the input and the plant at the same time."""

from numbers import Real

import numpy as np
import pandas as pd
from scipy import stats

from ..message.requests import Measurements
from ..message.states import EffectReply
from ..server.disturbances import lasting_covariances
from ..server.estimation.hidden_causes import HELD
from ._input_effects import operated_inputs

_LASTED = 5  # rows that a hidden cause has been at work before the input moves with it


def asked_sensitivity(estimator, n, u0, u1, horizon, strength, confidence):
    """The table of :meth:`FederatedCounterfactualEstimator.sensitivity`."""
    for name, value in (("strength", strength), ("confidence", confidence)):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
            raise ValueError(f"Got {name}={value!r}; give a number from 0 on and below 1.")
    effect, std = estimator.counterfactual(n, u0, u1, horizon=horizon, return_std=True)
    reach = _looks_like(estimator, n, u0, u1, horizon, len(effect))
    error, size = stats.norm.ppf((1 + confidence) / 2) * std.to_numpy(), effect.to_numpy()
    width = error + np.sqrt(strength / (1 - strength)) * reach
    left = np.maximum(np.abs(size) - error, 0.0)
    voided = np.square(left) / np.maximum(np.square(left) + np.square(reach), np.finfo(float).tiny)
    columns = {"effect": size, "low": size - width, "high": size + width, "voided_at": voided}
    places = {
        "step": np.repeat(effect.index, effect.shape[1]),
        "column": np.tile(np.asarray(effect.columns, dtype=object), len(effect)),
    }
    return pd.DataFrame(places | {name: values.ravel() for name, values in columns.items()})


def _looks_like(estimator, n, u0, u1, horizon, n_steps):
    """What a cause that explains half of the inputs' variance looks like in their effect, (n_steps, n_sensors).

    As noise that lasts as long as the inputs stay, in standard deviations of inputs over as many rows.
    """
    _, (before, after) = operated_inputs(estimator, n, u0, u1, horizon)
    change = estimator._change(before, after)[:, estimator._sent_inputs.active]
    change = np.vstack([change, change[-1:]])[:n_steps]  # with a row more where inputs act at once
    held = estimator.server_.held_variances_
    rows = np.arange(1, n_steps + 1) + _LASTED
    variances = np.column_stack([np.interp(np.log(rows), np.log(HELD), own) for own in held.T])
    moved = np.linalg.norm(change / np.sqrt(np.maximum(variances, np.finfo(float).tiny)), axis=1)
    by_unit = lasting_covariances(estimator.server_, n_steps + _LASTED)
    asked = {
        name: EffectReply(np.zeros(V[_LASTED:].shape[:2]), V[_LASTED:])
        for name, V in zip(estimator.client_names_, by_unit, strict=True)
    }
    with estimator._asking_models() as exchange:
        variance = estimator._measured(exchange.ask(asked, Measurements), "variance")[0]
    return np.maximum.accumulate(moved)[:, None] * np.sqrt(np.maximum(variance, 0.0))
