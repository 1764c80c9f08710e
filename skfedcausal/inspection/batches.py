"""A plant that is learned batch by batch: what is asked beside `partial_fit`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..estimators._asked import AskedPlant
from ._asked import asked_of

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator


def partial_fit_sites(
    est: "PlantEstimator", transport: Any = None, *, wait: float = 0.0, forget: Any = None
) -> "PlantEstimator":
    """Learn the plant from units at sites, batch by batch.

    The first batch is the record that each site names as `data`, from which it identifies its model. The next
    ones are files that come in the folder it names as `watched`, in the order of their names (see
    :doc:`/federation`); every file is an episode. Units send states of the new rows only, and are told what the
    plant does to them after the first batch only.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted or not.
    transport : Transport, default=None
        To the sites, at the first call. It stays open; later calls go on over it.
    wait : float, default=0.0
        Seconds to wait for a batch that not all sites have yet. When they are over, it is left for the next call.
    forget : float, default=None
        As in `partial_fit`, before every batch.

    Returns
    -------
    est : estimator
        After all batches that all sites have.
    """
    return asked_of(est, AskedPlant, "partial_fit_sites").next_batches(transport, wait, forget)


def renew(est: "PlantEstimator", units: str | Sequence[str] | None) -> "PlantEstimator":
    """Let units identify their models anew in the next batch of `partial_fit`.

    A new model has other states, about which earlier batches say nothing: the sums begin anew with that batch. The
    other units keep their models.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    units : str or list of str
        Names, of `outdated_units_` for example.

    Returns
    -------
    est : estimator

    Raises
    ------
    ValueError
        If there are no batches yet, the units are at sites of their own, or one is unknown.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import renew
    >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    >>> est = FederatedGrangerEstimator().partial_fit({name: Y[:1000] for name, Y in X.items()})
    >>> renew(est, "unit1").partial_fit({name: Y[1000:] for name, Y in X.items()}).n_batches_
    1
    """
    return asked_of(est, AskedPlant, "renew").renew(units)
