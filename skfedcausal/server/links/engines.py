"""What a learned plant answers about its links, by the engine that learned it.

An engine leaves estimates of the blocks of every pair behind, from which every table is made; how sure a spectrum is,
and which tests there are, is a matter of what else it knows. What is said here goes for any plant.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..validity.report import report
from .resampling import bootstrap_table, estimates_of_pieces, halves_of
from .tables import (
    METHODS,
    classical_tests,
    intervals_table,
    links_table,
    measure_intervals,
    scaled_ends,
    spectrum_intervals,
    strength_intervals,
    tests_table,
    with_directions,
)


@dataclass(frozen=True)
class Engine:
    """What is left of an engine after a fit: pairs (n_pairs, 2) of effect and cause, and estimates of their blocks.

    `blocks` have `strength`, `stderr`, `moments`, `worst` and `dof` of every pair, as `BlockEstimates` have.
    """

    pairs: np.ndarray
    blocks: Any

    methods: ClassVar[tuple[str, ...]] = ("wald",)  # of classical tests
    why_methods: ClassVar[str] = (
        "this engine leaves estimates of links and their covariances, of which Wald's test is made alone"
    )

    def table(self, server):
        """The table of links by the likelihood: all pairs of units, then inputs."""
        levels = {"alpha": server.alpha, "margin": server.margin, "correction": server.correction_}
        partition = server.partition_
        geweke = server.unshrunk_plant_.geweke(server.information_, partition)
        return links_table(server.names_, partition, self.blocks, geweke, **levels)

    def report(self, server, run, record, links):
        """The table of checks of what the plant assumes."""
        return report(server, run, record, links)

    def without_rows(self):
        """The same without anything that is as long as the record."""
        return self

    def with_directions(self, correlations, run, record, Q):
        """The table of correlated pairs with which of them acts on the other within a row."""
        if not len(correlations):
            return correlations
        return with_directions(correlations, run, record, Q)

    def intervals(self, server, confidence, geweke):
        """The table of intervals of all pairs."""
        levels = {"confidence": confidence, "alpha": server.alpha, "margin": server.margin}
        table = intervals_table(server.names_, self.pairs, self.blocks, server.n_samples_, **levels)
        return self.with_measures(server, table, confidence) if geweke else table

    def with_measures(self, server, table, confidence):
        """The table of intervals with Geweke's measures and theirs."""
        measure = server.links_.loc[server.links_["kind"] == "state", "geweke"].to_numpy()
        if not np.isfinite(measure).all():
            effect, cause = self.pairs.T
            measure = server.plant_.geweke(server.information_, server.partition_)[effect, cause]
        low, high = scaled_ends(measure, table["norm"], table["low"], table["high"])
        return table.assign(geweke=measure, geweke_low=low, geweke_high=high)

    def spectrum_ends(self, server, pair, found, conditional, confidence):
        """Ends of the interval of a pair's spectrum at every frequency: it goes with the square of the strength."""
        row = np.flatnonzero((self.pairs == pair).all(axis=1))
        if not len(row):  # of a plant of many units, in which nothing came near to a link
            return np.full((2, len(found.measure)), np.nan)
        low, high = strength_intervals(self.blocks, confidence)
        return scaled_ends(found.measure, self.blocks.strength[row], low[row], high[row])

    def check_tests(self, method):
        """Refuse a classical test that is not made of such a plant, before any work."""
        if method not in self.methods:
            raise ValueError(f"Got method={method!r}; {self.why_methods}. Ask with method={self.methods[0]!r}.")

    def tests(self, server, record, settings, method):
        """The table of classical tests of all pairs."""
        tested = self.blocks.statistic, self.blocks.dof, self.blocks.p_value
        return tests_table(server.names_, self.pairs, np.ones(len(self.pairs), dtype=bool), *tested)

    def bootstrap(self, server, record, settings, **how):
        """The table of links with the scatter of their estimates over resampled records."""
        return bootstrap_table(record, settings, **how)

    def halves(self, server, record, block_length):
        """A task that finds the links of two random halves of a record."""
        return halves_of(record, server.alpha, block_length)

    def pieces(self, server, record, settings, piece):
        """Estimates of blocks in pieces of so many rows, of which pairs, and the pieces' rows."""
        return estimates_of_pieces(record, settings, piece)


@dataclass(frozen=True)
class OneLag(Engine):
    """Of a plant of one lag that was learned as a whole: the covariance of everything is known."""

    parameters: Any  # `FittedParameters`
    of_inputs: Any = None  # `BlockEstimates` of what inputs of units do to others, None without any

    methods = METHODS

    @classmethod
    def of(cls, known, partition, estimate):
        """From a `PlantEstimate` and what is known of links beforehand, a `LinkKnowledge` or None."""
        blocks = estimate.blocks["state"]
        if known is not None:
            blocks = known.without_forbidden(blocks, partition)
        has_inputs = partition.n_inputs and len(partition.input_pairs.pairs)
        return cls(partition.pairs, blocks, estimate.parameters, estimate.blocks["input"] if has_inputs else None)

    def table(self, server):
        """The table of links by the likelihood: all pairs of units, then inputs."""
        links = super().table(server)
        if self.of_inputs is None:
            return links
        levels = {"alpha": server.alpha, "margin": server.margin, "correction": server.correction_}
        inputs = links_table(server.names_, server.partition_.input_pairs, self.of_inputs, **levels, kind="input")
        return pd.concat([links, inputs], ignore_index=True)

    def tests(self, server, record, settings, method):
        """The table of classical tests of all pairs."""
        return classical_tests(record, settings, method)

    def with_measures(self, server, table, confidence):
        """The table of intervals with Geweke's measures and theirs, by the delta method."""
        found = measure_intervals(self.parameters, server.information_, server.partition_, confidence)
        effect, cause = self.pairs.T
        names = "geweke", "geweke_low", "geweke_high"
        return table.assign(**{name: values[effect, cause] for name, values in zip(names, found, strict=True)})

    def spectrum_ends(self, server, pair, found, conditional, confidence):
        """Ends of the interval of a pair's spectrum at every frequency, by the delta method."""
        about = server.information_, server.partition_, pair, found, conditional, confidence
        return spectrum_intervals(self.parameters, *about)
