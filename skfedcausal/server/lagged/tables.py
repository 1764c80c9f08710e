"""Tables of plants of several lags: links with their delays, and tests of them."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import norm

from ..links.engines import Engine
from ..links.tables import COLUMNS, named_pairs
from ..links.tests import tests_table


def _verdicts(blocks, p_adjusted, alpha, margin):
    """ "influence", "no influence" where the strength is hardly above the margin, or "cannot tell"."""
    mean = blocks.squares + blocks.mean
    spread = np.sqrt(blocks.spread + 4 * blocks.squares * blocks.along)
    below = mean + norm.isf(alpha) * spread < margin**2
    verdict = np.where(below, "no influence", "cannot tell").astype(object)
    verdict[np.asarray(p_adjusted) <= alpha] = "influence"
    return verdict


@dataclass(frozen=True)
class SeveralLags(Engine):
    """Of a plant of several lags: `pairs` and `blocks` of states, and tests over all lags at once."""

    columns: dict  # of the table of links, by kind of cause: "statistic" is twice the log evidence
    by_kind: dict  # blocks of each kind
    active: np.ndarray  # (n_units, n_sources), what acts on each unit

    methods = ("score",)  # kernels of several decays have no degrees of freedom
    why_methods = (
        "the plant has several lags (see `misfit_`), over all of which links are tested by their score at once"
    )

    @classmethod
    def of(cls, partition, lagged):
        """From a `LaggedEstimate`."""
        return cls(partition.pairs, lagged.blocks["state"], lagged.links, lagged.blocks, lagged.active)

    def table(self, server):
        """The table of links by the posterior: all pairs of units, then inputs; measures of small plants alone."""
        partition, tables = server.partition_, []
        geweke = server.plant_.geweke(server.information_, partition) if server.plant_.is_small else None
        for kind, found in self.columns.items():
            pairs, blocks = (partition if kind == "state" else partition.input_pairs).pairs, self.by_kind[kind]
            columns = named_pairs(server.names_, pairs) | found
            columns |= {"kind": kind, "norm": blocks.strength, "stderr": blocks.stderr, "because": ""}
            columns["geweke"] = geweke[tuple(pairs.T)] if geweke is not None and kind == "state" else np.nan
            columns["verdict"] = _verdicts(blocks, found["p_adjusted"], server.alpha, server.margin)
            tables.append(pd.DataFrame(columns, columns=list(COLUMNS)))
        return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)

    def tests(self, server, record, settings, method):
        """The table of tests of all pairs by their scores."""
        found = self.columns["state"]
        tested = found["statistic"], np.nan, found["p_value"]
        return tests_table(server.names_, self.pairs, self.active[tuple(self.pairs.T)], *tested)

    def bootstrap(self, server, record, settings, **how):
        """The table of links with the scatter of their estimates over resampled records."""
        from .resampling import Redrawn, bootstrap_table  # for those who ask

        redrawn = Redrawn.of(server, record, self.active, how.pop("block_length"))
        return bootstrap_table(server, redrawn, self.columns, **how)

    def halves(self, server, record, block_length):
        """A task that finds the links of two random halves of a record."""
        from .resampling import Redrawn, check_blocks, links_of_halves  # for those who ask

        redrawn = Redrawn.of(server, record, self.active, block_length)
        check_blocks(len(redrawn.blocks_of_rows))
        return partial(links_of_halves, redrawn, server.alpha)
