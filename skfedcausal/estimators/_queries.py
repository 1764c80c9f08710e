"""Units that can be queried about a record, and their answers side by side."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..callers import warn
from ..containers import PlantLayout, episode_starts
from ..containers.layout import listed
from ..federation.exchange import Exchange
from ..federation.lost import LostUnitWarning
from ..message.requests import Measurements, RecordRequest
from ..message.states import EffectReply, PredictionReply, StateMessage


@dataclass(frozen=True)
class QueriedUnits:
    """Units that can be queried, and what is known of the record that they are about.

    Times of its rows and rows of each episode (none for questions about models alone), inputs if given; units and
    their columns, and which states of the plant are whose.
    """

    exchange: Exchange
    layout: PlantLayout
    state_slices: dict
    lengths: tuple = ()
    index: pd.Index | None = None
    inputs: tuple | None = None

    @property
    def n_samples(self):
        """Rows of the record."""
        return sum(self.lengths)

    @property
    def starts(self):
        """First row of each episode."""
        return episode_starts(self.lengths)

    def messages(self, **wishes):
        """Messages of all units about the record."""
        return self.exchange.ask_all(RecordRequest(**wishes), StateMessage)

    def messages_there(self, silent, **wishes):
        """Messages of all units; `silent(name, lengths)` stands in for late ones where `lost_units` allows it."""
        names, came = self.exchange.names, self.exchange.ask_those_there(RecordRequest(**wishes), StateMessage)
        lost = [name for name in names if name not in came]
        if lost:
            warn(
                f"Units {listed(lost)} did not answer in time: the answer is given what the others measured.",
                LostUnitWarning,
            )
        return {name: came[name] if name in came else silent(name, self.lengths) for name in names}

    # -- states and measurements -------------------------------------------------------------------

    def by_unit(self, states):
        """Pairs of every unit's name and its own among the states of all, (n_samples, n)."""
        return [(name, np.ascontiguousarray(states[:, rows])) for name, rows in self.state_slices.items()]

    def mapped(self, states, covariances=None):
        """Answers with the measurements to expect of states, (n_samples, n), as every unit maps its own.

        `covariances` has those of each unit's states, (n_samples, n_m, n_m), for variances of measurements.
        """
        of_units = [None] * len(self.state_slices) if covariances is None else covariances
        own = zip(self.by_unit(states), of_units, strict=True)
        return self.exchange.ask({name: PredictionReply(part, V) for (name, part), V in own}, Measurements)

    def places(self, answers):
        """Positions of each unit's sensors in a table of all, and the names of its columns."""
        if self.layout.has_columns:
            return self.layout.output_places()
        sizes = [len(answer.columns) for answer in answers.values()]
        ends = np.cumsum(sizes)
        positions = [list(range(end - size, end)) for end, size in zip(ends, sizes, strict=True)]
        return positions, [name for answer in answers.values() for name in answer.columns]

    def measured(self, answers, field="values"):
        """Measurements in the answers of all units side by side, (n_samples, n_sensors), and names of the columns."""
        positions, columns = self.places(answers)
        table = np.empty((len(next(iter(answers.values())).values), len(columns)))
        for where, answer in zip(positions, answers.values(), strict=True):
            table[:, where] = getattr(answer, field)
        return table, columns

    def with_variance(self, answers, unknown=np.nan):
        """The same with the variance of the measurements, `unknown` where some unit has none, before the names."""
        values, columns = self.measured(answers)
        if any(answer.variance is None for answer in answers.values()):
            return values, np.full_like(values, unknown), columns
        return values, self.measured(answers, "variance")[0], columns

    def loadings(self):
        """How all sensors follow the states of their units, as these say, (n_sensors, n), and their names."""
        slices = self.state_slices
        unit_states = {name: EffectReply(np.eye(rows.stop - rows.start)) for name, rows in slices.items()}
        answers = self.exchange.ask(unit_states, Measurements)
        positions, columns = self.places(answers)
        C = np.zeros((len(columns), sum(rows.stop - rows.start for rows in slices.values())))
        for unit, (name, states) in zip(positions, slices.items(), strict=True):
            C[unit, states] = answers[name].values.T
        return C, columns
