"""What links do to the sensors of a plant: from which tag to which, in which direction, how much and when.

A question of estimators; units tell how their sensors follow their states, as they do for effects of inputs.
"""

import numpy as np
import pandas as pd

from ..server.links.grades import told_links
from ..statespace.matrices import companion
from ..statespace.riccati import stationary_covariance
from ._questions import told_loadings

_COLUMNS = ("cause", "effect", "verdict", "cause_tag", "effect_tag", "gain", "correlation", "delay", "delay_time")


def link_effects(self):
    """What every link does in terms of measurements, with its sign and in their units.

    Returns
    -------
    DataFrame
        One row per link between states with the verdict "influence" or "coupled": ``cause, effect, verdict``;
        ``cause_tag`` and ``effect_tag``, the sensors that show it best; ``gain``, the expected change of the effect's
        tag through this link alone, one delay after the cause's tag stood a unit of its own higher; ``correlation``,
        the same in standard deviations of both; ``delay`` in rows and ``delay_time`` in seconds, NaN without times.

    Raises
    ------
    ValueError
        If units at sites of their own cannot be asked.

    Notes
    -----
    With states h of covariance P, the block M of the lag that acts most, and sensors ``y = C h + noise`` of cause k
    and effect m, the gains between their tags are ``C_m M P_k C_k' / var(C_k h)``: what the regression on the cause's
    tag says of the states that act. Of a link that rests on a held-out gain M is that of a regression on what single
    rows measure of the states, so that their noise makes gains smaller. Units tell their C, one packet each.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> table = FederatedGrangerEstimator().fit(X).link_effects()
    >>> table[["cause", "effect", "delay"]].to_string(index=False)
    'cause effect  delay\\nunit0  unit2    1.0'
    """
    with self._asking_models() as exchange:
        C, columns = told_loadings(self, exchange)
    lags, n = self.lag_transitions_, len(self.transition_)
    noise = np.zeros((len(lags) * n, len(lags) * n))
    noise[:n, :n] = self.process_cov_
    P = stationary_covariance(companion(np.hstack(lags), len(lags)), noise)[:n, :n]
    variance = np.einsum("ij,jk,ik->i", C, P, C)
    found = told_links(self.links_[self.links_["kind"] == "state"])
    rows, seconds = [], np.nan if self._row_time is None else self._row_time.total_seconds()
    for link in found.to_dict("records"):
        cause, effect = (self.state_slices_[link[end]] for end in ("cause", "effect"))
        is_graded = link["basis"] == "held-out gain"
        blocks = (self.server_.carried_ if is_graded else lags)[:, effect, cause]
        M = blocks[np.argmax(np.linalg.norm(blocks, axis=(1, 2)))]
        of_cause, of_effect = (np.flatnonzero(np.abs(C[:, at]).sum(axis=1)) for at in (cause, effect))
        gains = C[of_effect][:, effect] @ M @ P[cause, cause] @ C[of_cause][:, cause].T / variance[of_cause]
        scaled = gains * np.sqrt(variance[of_cause] / variance[of_effect][:, None])
        # all alike between units of one state: the first of those that tie up to rounding
        i, j = np.unravel_index(np.abs(scaled).round(9).argmax(), scaled.shape)
        tags = columns[of_cause[j]], columns[of_effect[i]]
        gain, delay = (gains[i, j], scaled[i, j]), link["lag" if is_graded else "delay"]
        rows.append((link["cause"], link["effect"], link["verdict"], *tags, *gain, delay, delay * seconds))
    return pd.DataFrame(rows, columns=list(_COLUMNS))
