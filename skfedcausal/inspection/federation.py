"""What the federation costs and brings: the same from pooled records, and each unit's gain from joining."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from sklearn.base import clone

from ..arguments import check_choice
from ..client.pooled import PooledTransport
from ..estimators._asked import AskedPlant
from ..federation.communication import Communication
from ..given import Inputs, Lengths, Record
from ..server.links import answers
from ._asked import answering, fitted

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator


def benefit(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    held_out: float = 0.3,
    by: str = "unit",
) -> pd.DataFrame:
    """What every unit gains from joining, on rows that nothing was learned from.

    The server learns the plant, and every unit's model from its own message alone, from the first part of
    every episode, and predicts the last part one step ahead.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        Record to learn from and to predict, such as that of `fit`, of which an estimator keeps no series.
    inputs, lengths
        As in `fit`.
    held_out : float, default=0.3
        Share of every episode to predict.
    by : {"unit", "pair"}, default="unit"

    Returns
    -------
    DataFrame
        By unit: ``gain``, log-density of the unit's own measurements given the past of all units less
        that given its own past, in nats per row, and ``stderr``; ``rows`` with measurements of the unit
        that were predicted; ``neighbour``, whose messages it would miss most, with ``neighbour_gain``
        and ``neighbour_stderr``, or ``""`` where no such gain is significant (one-sided, 5 %);
        ``bytes_up, bytes_down``, what joining took in `fit`. By pair: ``cause, effect, gain, stderr``.

    Raises
    ------
    ValueError
        For a plant with inputs, or a share that episodes cannot be split at.

    Notes
    -----
    All from messages, which a privacy mechanism releases as everywhere, at its cost. The table stays
    behind as `benefit_`. Gains from a neighbour are what the learned plant predicts worse without
    that unit's messages; they need not add up. A unit without any connection in the plant is its own
    model and gains exactly zero. Otherwise the mean of the differences, given the two fitted models, has
    the standard error of Newey and West, so that a unit can test its gain [1]_ whatever the distribution
    of the noise. The units' sensor models (loadings and noise) were identified from all rows, by each
    alone, and are the same on both sides.

    References
    ----------
    .. [1] Giacomini, White (2006), Tests of conditional predictive ability, Econometrica 74(6).

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import benefit
    >>> X, _ = make_granger_plant(3, n_samples=5000, links=[("unit0", "unit2")], random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> benefit(est, X).loc["unit2", "neighbour"]
    'unit0'
    """
    check_choice("by", by, ("unit", "pair"))
    server, asked = answering(est, "benefit", "test_links"), est.asked_
    with asked.about(X, inputs, lengths) as units:
        found = answers.benefit(server, units.messages(), held_out=held_out)
    return found.by_pair() if by == "pair" else asked.keep_benefit(found.by_unit())


def oracle(est: "PlantEstimator", X: Record, *, inputs: Inputs = None, lengths: Lengths = None) -> "PlantEstimator":
    """The same estimator fitted by a central machine that holds all raw measurements.

    Only for data that may be pooled: a check of what the federation costs.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        The record of `fit`.
    inputs : list or dict, default=None
    lengths : sequence of int, default=None

    Returns
    -------
    estimator
        Of the same class, fitted with the same settings and unit models.

    Raises
    ------
    ValueError
        If the estimator learned from sites, or with noise inside training.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import oracle
    >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> oracle(est, X).transition_.shape == est.transition_.shape
    True
    """
    asked = fitted(est, AskedPlant, "oracle")
    asked.check_rows()
    if asked.at_sites:
        raise ValueError(
            "The oracle pools raw measurements, which sites keep: it exists only for records in one process. "
            "Compare with `fit(X)` where X may be pooled."
        )
    if est.privacy is not None and est.privacy.place != "record":
        raise ValueError(
            "The oracle pools what the units sent; noise inside training has no counterpart there. Use noise on "
            "the record, or none, to compare with it."
        )
    other = clone(est).set_params(communication=Communication(transport=PooledTransport))
    return asked.learned_from(other, asked.read(X, inputs, lengths))


def oracle_gap(est: "PlantEstimator", X: Record, *, inputs: Inputs = None, lengths: Lengths = None) -> float:
    """Relative distance of the plant matrices to the oracle's, in Frobenius norm.

    Rounding error. On a nearly degenerate plant (``server_.has_prior_``) messages in single or half
    precision can lead to other links.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        The record of `fit`.
    inputs : list or dict, default=None
    lengths : sequence of int, default=None

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the oracle learns another number of states, of a record that is not that of `fit`.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import oracle_gap
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> oracle_gap(FederatedGrangerEstimator().fit(X), X) < 1e-8
    True
    """
    central = oracle(est, X, inputs=inputs, lengths=lengths)
    pairs = [(getattr(est, name), getattr(central, name)) for name in est.asked_.acting]
    (own, other), *_ = pairs
    if len(own[0]) != len(other[0]):
        raise ValueError(
            f"Got a record from which the oracle learns {len(other[0])} states, and this estimator has "
            f"{len(own[0])}: the oracle is fitted to the record of `fit`. Give that one."
        )
    own, other = (np.hstack(matrices) for matrices in zip(*(_of_equal_lags(*pair) for pair in pairs), strict=True))
    return float(np.linalg.norm(own - other) / np.linalg.norm(other))


def _of_equal_lags(own, other):
    """Two stacks of matrices (p, n, .) side by side, with zeros for lags that one of them has not."""
    own, other = (stack.reshape(-1, *stack.shape[-2:]) for stack in (own, other))
    n_lags = max(len(own), len(other))
    return [np.hstack([*stack, *np.zeros((n_lags - len(stack), *stack.shape[1:]))]) for stack in (own, other)]
