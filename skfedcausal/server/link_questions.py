"""What a fitted plant answers about its links."""

import pandas as pd

from ..statespace.geweke_spectrum import geweke_spectrum
from .intervals import intervals_table


class LinkQuestions:
    """Questions to a server that has learned the links; part of :class:`LikelihoodServer`."""

    def link_intervals(self, level=0.95):
        """Intervals of the strength of every link between states, and what would decide them.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of each interval, not of all together.

        Returns
        -------
        DataFrame
            One row per ordered pair: ``cause, effect, strength``; ``low, high``, the interval, `low` zero
            where no influence is compatible with the record; ``deciding_rows``, length of a record of this
            kind in which an influence of strength `margin` is told from none four times in five. Like
            all tests given the links in the model.
        """
        if not 0 < level < 1:
            raise ValueError(f"Got level={level}; a coverage lies between 0 and 1.")
        return intervals_table(
            self.names_,
            self.partition_.pairs,
            self._blocks,
            self.n_samples_,
            level=level,
            alpha=self.alpha,
            margin=self.margin,
        )

    def spectrum(self, cause, effect, *, conditional=True, n_frequencies=None):
        """Geweke's measure of the influence of one unit on another over frequency.

        Parameters
        ----------
        cause, effect : str
            Names of units.
        conditional : bool, default=True
            Given the measurements of all other units; False looks at the two units alone.
        n_frequencies : int, default=None
            None takes as many as the average over frequency needs to converge.

        Returns
        -------
        DataFrame
            Columns ``frequency``, in radians per time step up to pi, and ``measure``. ``attrs["total"]`` is
            the measure of the time domain (the column ``geweke`` of `links_` where it is conditional), and
            ``attrs["averages_to_total"]`` says whether Geweke's root condition holds, so that the
            mean over frequency is the total.
        """
        for name in (cause, effect):
            if name not in self.names_:
                raise ValueError(f"There is no unit {name!r}; the units are {', '.join(self.names_)}.")
        if cause == effect:
            raise ValueError(f"Cause and effect are both {cause!r}; give two units.")
        found = geweke_spectrum(
            self.unshrunk_transition_,
            self.process_cov_,
            self.information_,
            self.partition_,
            self.names_.index(effect),
            self.names_.index(cause),
            conditional=conditional,
            n_frequencies=n_frequencies,
        )
        table = pd.DataFrame({"frequency": found.frequency, "measure": found.measure})
        table.attrs = {"total": found.total, "averages_to_total": found.has_roots_inside}
        return table
