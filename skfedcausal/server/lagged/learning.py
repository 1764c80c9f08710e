"""The plant of several lags of a record: with which share of sensor noise, level shifts or none, gaps filled anew."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..estimation.estimate import estimate_plant
from .misfit import filled_record
from .stage import LIKELIER, SHARES, learn_lags


@dataclass
class Search:
    """For a plant of several lags, from the plant of one lag that was kept."""

    raw: Any  # JointRecord with the noise that units suppose
    record: Any  # with the noise that the filter supposes
    estimate: Any  # of one lag
    point: Any  # where the plant of one lag operates
    settings: Any
    budget: Any
    words: tuple  # on the timing of every input
    noise_share: float | None  # of sensor noise, chosen for one lag; None where it is not open
    share: float | None = None  # that is chosen for several
    latest: tuple = (0, 0)  # lag of states and of inputs that surely acts by itself

    def learned(self):
        """The :class:`~.stage.LaggedEstimate`, None if it is no better than the plant of one lag."""
        lagged = self._of(self.estimate) if self.noise_share is None else self._with_share()
        if lagged is not None and lagged.steps and self.words:  # one lag may take what inputs do for shifts
            lagged = self._without_shifts(lagged)
        has_gaps = not (self.record.is_constant or self.estimate.plant.stands_in)
        if lagged is not None and has_gaps:  # what is missing as these lags expect it
            filtered = self._at_its_point(lagged).run(self.record.at_steps(lagged.steps))
            return self._of(estimate_plant(filled_record(self.record, filtered.hindsight()), self.settings))
        return lagged

    def is_likelier(self, lagged, filter_of_one_lag):
        """Whether the exact likelihood, too, prefers several lags: that of their stage may run away."""
        n_free = np.count_nonzero(self.estimate.scoring.structure.transition_mask)
        record = self.record.at_hand
        nothing = np.zeros(record.n_samples)
        bare = replace(record, parts=tuple(replace(part, const=nothing) for part in record.parts))
        several = self._at_its_point(lagged).run(bare.at_steps(lagged.steps))
        one = filter_of_one_lag(self.point.placed(bare))
        value = several.log_likelihood().sum() - lagged.n_effective
        return value > one.log_likelihood().sum() - n_free + LIKELIER

    def _of(self, estimate):
        return learn_lags(estimate, self.settings, self.budget, self.words, self.latest)

    def _at_its_point(self, lagged):
        """The plant around its own operating point."""
        return replace(lagged.dynamics, point=self.point.moved(self.record, lagged.steps, lagged.new_levels))

    def _with_share(self):
        """Where the share of sensor noise is open: the plant with the share of the largest evidence."""
        best = None
        for share in SHARES:
            lagged = self._of(estimate_plant(self.raw.with_noise_share(share), self.settings))
            # what does not converge may be no plant: a likelihood that runs away
            if lagged is not None and (best is None or lagged.rank > best.rank):
                best, self.share = lagged, share
            elif best is not None:
                break
            if self.budget.is_spent:
                break
        return best

    def _without_shifts(self, lagged):
        """The plant of the record without level shifts, if it is likelier."""
        if not self.record.is_constant:
            return lagged
        noisy = self.raw.with_noise_share((self.noise_share if self.share is None else self.share) or 0.0)
        other = self._of(estimate_plant(noisy, replace(self.settings, level_shifts=None)))
        return lagged if other is None or other.rank <= lagged.rank else other
