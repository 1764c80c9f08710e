"""Tables of plants of several lags: links with their delays, and tests of them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from ..estimation.evidence import holm
from ..links.engines import Engine
from ..links.tables import COLUMNS, named_pairs


def lagged_links_table(names, partition, lagged, geweke, *, alpha, margin):
    """Table of links of a plant of several lags: all ordered pairs of units, then inputs.

    Without Geweke's measures where `geweke` is None.
    """
    tables = []
    for kind, found in lagged.links.items():
        pairs = (partition if kind == "state" else partition.input_pairs).pairs
        blocks = lagged.blocks[kind]
        columns = named_pairs(names, pairs) | found
        columns |= {"kind": kind, "norm": blocks.strength, "stderr": blocks.stderr}
        has_measure = geweke is not None and kind == "state"
        columns["geweke"] = geweke[pairs[:, 0], pairs[:, 1]] if has_measure else np.nan
        columns["verdict"] = _verdicts(blocks, found["p_adjusted"], alpha, margin)
        columns["because"] = ""
        tables.append(pd.DataFrame(columns, columns=list(COLUMNS)))
    return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)


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

    statistic: np.ndarray  # (n_pairs,), twice the log evidence
    p_value: np.ndarray
    in_model: np.ndarray

    @classmethod
    def of(cls, partition, lagged):
        """From a `LaggedEstimate`."""
        found, (effect, cause) = lagged.links["state"], partition.pairs.T
        tests = found["statistic"], found["p_value"], lagged.active[effect, cause]
        return cls(partition.pairs, lagged.blocks["state"], *tests)

    def tests(self, server, record, settings, method):
        """The table of tests of all pairs by their scores; kernels of several decays have no degrees of freedom."""
        if method != "score":
            raise ValueError(
                f"Got method={method!r}; the plant has {server.plant_.n_lags} lags (see `misfit_`), over all of which "
                "links are tested by their score at once. Ask with method='score'."
            )
        from statsmodels.stats.multitest import multipletests  # slow to import, and no unit needs it

        columns = named_pairs(server.names_, self.pairs) | {
            "in_model": self.in_model,
            "statistic": self.statistic,
            "dof": np.nan,
            "p_value": self.p_value,
            "p_holm": holm(self.p_value),
            "p_fdr": multipletests(self.p_value, method="fdr_bh")[1],
        }
        return pd.DataFrame(columns)
