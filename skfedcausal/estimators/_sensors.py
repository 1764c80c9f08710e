"""What-if questions about sensors: held by the controller of their unit, or whatever it takes."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..containers.layout import SEPARATOR, flat_name, listed
from ..message.requests import Measurements
from ..message.states import EffectReply
from ..server.held import held_effects
from ..statespace.episodes import episodes
from ._input_effects import inputs_of, state_effects, with_variance
from ._interventions import replaced_input
from ._questions import check_covariances, told_loadings

_SETTLED = 1000  # rows after which a controller has brought its sensor to where it ends
_NOTHING = 1e-6  # standard deviations that an input has to move a sensor by


def flat_questions(do, units):
    """A dict of units to dicts of their columns as one of flat names."""
    flat: dict = {}
    for name, value in do.items():
        if name in units and not isinstance(value, (Mapping, pd.DataFrame)):
            raise ValueError(
                f"Got a {type(value).__name__} for unit {name!r}; give a dict from its sensors or inputs to values."
            )
        inner = value.items() if name in units else [(None, value)]
        flat |= {name if own is None else flat_name(name, str(own)): one for own, one in inner}
    return flat


class HeldSensors:
    """Sensors that are held over a record, and what that does to all others."""

    def __init__(self, estimator, units, do, columns, factual):
        self._estimator, self._units, self._columns = estimator, units, list(columns)
        self.names = list(do)
        self._at = [self._columns.index(name) for name in do]
        self._values = np.column_stack([self._series(name, value, factual) for name, value in do.items()])

    def _series(self, name, value, factual):
        recorded = factual[:, self._columns.index(name)]
        if callable(value) or np.ndim(value) == 0:
            return replaced_input(value, recorded, self._units.index, name)
        series = np.asarray(value, dtype=float)
        if series.shape != recorded.shape:
            raise ValueError(
                f"Got {series.shape} values for sensor {name!r}, expected a number or {len(recorded)} rows."
            )
        return series

    def by_force(self, messages, effect):
        """Effect and its variance (n_samples, n_sensors) beside that of inputs, of whatever it takes to hold them."""
        estimator = self._estimator
        check_covariances(estimator, "what holding a sensor does")
        C, _ = told_loadings(estimator, self._units.exchange)
        rows = C[self._at]
        states = estimator.server_.filter(messages).filtered
        shown = self._expected(states)[:, self._at] + effect[:, self._at]
        parts = []
        for start, stop in episodes(self._units.starts, len(shown)):
            parts.append(held_effects(estimator.server_, rows, self._values[start:stop] - shown[start:stop]))
        moved, draws = (np.concatenate(part, axis=k - 2) for k, part in enumerate(zip(*parts, strict=True)))
        replies = {}
        for name, own in estimator.state_slices_.items():
            spread = (draws - moved)[:, :, own]
            V = np.einsum("dti,dtj->tij", spread, spread) / max(len(spread), 1)
            replies[name] = EffectReply(np.ascontiguousarray(moved[:, own]), V)
        answers = self._units.exchange.ask(replies, Measurements)
        found, variance, _ = with_variance(estimator, answers, np.nan)
        variance[:, self._at] = np.where(np.isnan(self._values), variance[:, self._at], 0.0)  # held is held
        return found, variance

    def _expected(self, states):
        """Measurements that states stand for, (n_samples, n_sensors)."""
        return self._estimator._measured(self._estimator._mapped(self._units, states))[0]

    def by_controllers(self, factual):
        """Changes (n_samples, n_inputs) of set points of the controllers of these sensors that bring them there.

        In the mean and in the end: what the controller's law does on the way, it does.
        """
        estimator, found = self._estimator, None
        for k, (name, at) in enumerate(zip(self.names, self._at, strict=True)):
            values = self._values[:, k]
            unit = name.split(SEPARATOR)[0]
            if unit not in estimator.server_.laws_:
                known = listed(estimator.server_.laws_) or "none"
                raise ValueError(
                    f"No law of a controller of {unit!r} is known that could hold {name!r} (known are those of "
                    f"{known}). Ask with sensors='force' for what would be if it were held, whatever it takes."
                )
            if np.isnan(values).any() or np.ptp(values):
                raise ValueError(f"A controller holds {name!r} at one value; give a number, or sensors='force'.")
            gains = {j: self._gain(j, at) for j in inputs_of(estimator, unit)}
            j = max(gains, key=lambda one: abs(gains[one]))
            if abs(gains[j]) * estimator.excitation_["std"].iloc[j] < _NOTHING * factual[:, at].std():
                raise ValueError(f"No input of {unit!r} moves {name!r}, so that its controller cannot hold it.")
            found = np.zeros((len(values), len(estimator._plant_inputs.names))) if found is None else found
            found[:, j] += (values - factual[:, at].mean()) / gains[j]
        return found

    def _gain(self, j, at):
        """Where a sensor ends after a change of an input's set point by one while its controller goes on."""
        estimator = self._estimator
        change = np.zeros((_SETTLED, len(estimator._plant_inputs.names)))
        change[:, j] = 1.0
        none_held = np.zeros(change.shape[1], dtype=bool)
        replies = state_effects(estimator, change, np.zeros_like(change), none_held, "react")
        return estimator._measured(self._units.exchange.ask(replies, Measurements))[0][-1, at]
