"""What is asked while a plant is watched: sites to be followed, what operators say, flags of units."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..containers.layout import as_names, refuse_unknown
from ..estimators._asked import AskedWatch
from ..estimators._streams import flag_array
from ..given import Inputs, Lengths, Record
from ._asked import fitted
from .blame import one_incident

if TYPE_CHECKING:
    from ..estimators.detector import FederatedRCADetector


def watch_sites(est: "FederatedRCADetector", *, wait: float = 0.0) -> pd.DataFrame:
    """Incidents in the records that the sites have to be watched, after `fit_sites`.

    Every unit sends messages about that record, batch by batch as it comes, by the model it has from the
    fit, and is told the verdicts where there is a way back. Units and server keep where they stand
    between batches, so that the answers are those to one record; the next call goes on.

    Parameters
    ----------
    est : FederatedRCADetector
        Fitted.
    wait : float, default=0.0
        Seconds to wait for a further batch of every unit before the record is taken to end here.

    Returns
    -------
    DataFrame
        As `incidents`, in positions from 0 at the first batch; those of all batches so far.

    Raises
    ------
    ClientError
        If a unit gave no usable message, for it has no such record, say.
    ValueError
        If this estimator has no sites, or the batches of the units do not have the same rows.

    See Also
    --------
    follow_sites : The same, batch by batch.
    """
    for _ in follow_sites(est, wait=wait):
        pass
    return est.site_incidents_


def follow_sites(est: "FederatedRCADetector", *, wait: float = 0.0) -> Iterator[pd.DataFrame]:
    """Follow the records that the sites have to be watched, as :func:`watch_sites` does.

    Parameters
    ----------
    est : FederatedRCADetector
        Fitted.
    wait : float, default=0.0
        Seconds to wait for a further batch of every unit.

    Yields
    ------
    DataFrame
        For every batch the incidents that are new or revised, as `update` gives them.

    Raises
    ------
    ValueError
        If there are no sites to be asked.
    """
    yield from fitted(est, AskedWatch, "follow_sites").follow(wait)


def acknowledge(est: "FederatedRCADetector", incident: Any) -> None:
    """Take note that somebody has seen an incident of the stream: what remains of it is how the plant runs now.

    An incident that is still open is over, and its level is the operating point; alarms of the same root from now
    on are new incidents, not repeats of this one.

    Parameters
    ----------
    est : FederatedRCADetector
        Fitted.
    incident : Series, DataFrame or place
        Row of what `update` gave, of a table its first, or the row's ``detected``.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        If there is no such incident in the stream.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import acknowledge
    >>> X, _ = make_granger_plant(3, n_samples=3000, container="frame", random_state=0)
    >>> detector = FederatedRCADetector().fit(X[:2600])
    >>> faulty = X[2600:].reset_index(drop=True)
    >>> faulty.loc[200:, ["unit2__s0", "unit2__s1"]] += 5.0
    >>> new = detector.update(faulty[:300])
    >>> acknowledge(detector, new.iloc[-1])
    """
    stream = fitted(est, AskedWatch, "acknowledge").stream
    row = one_incident(incident, ("detected",)) if isinstance(incident, pd.DataFrame) else incident
    stream.acknowledge(row["detected"] if isinstance(row, pd.Series) else row)


def rebaseline(est: "FederatedRCADetector", units: str | Sequence[str] | None = None) -> None:
    """Take the level of the stream's last rows for the operating point, after a repair or another recipe, say.

    Parameters
    ----------
    est : FederatedRCADetector
        Fitted.
    units : sequence of str, default=None
        Only of these units; None for all.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        If a unit is unknown, or too few rows came.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import rebaseline
    >>> X, _ = make_granger_plant(3, n_samples=3000, container="frame", random_state=0)
    >>> detector = FederatedRCADetector().fit(X[:2600])
    >>> _ = detector.update(X[2600:])
    >>> rebaseline(detector, ["unit2"])
    """
    stream = fitted(est, AskedWatch, "rebaseline").stream
    names = est.client_names_ if units is None else as_names(units, "units")
    refuse_unknown(names, est.client_names_, "Got unknown units")
    stream.rebaseline(np.isin(est.client_names_, names))


def flags(
    est: "FederatedRCADetector", X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None
) -> pd.DataFrame:
    """The paper's flags of every unit as the server gets them, two bits per step: equation 9.

    Parameters
    ----------
    est : FederatedRCADetector
        Fitted.
    X : list, dict, DataFrame or ndarray
    inputs, lengths
        As in `fit`.

    Returns
    -------
    DataFrame
        Columns ``unit__Z_c`` (proprietary model) and ``unit__Z_a`` (augmented model), 0 or 1.

    Raises
    ------
    ValueError
        If the detector was not fitted with ``evidence="flags"``.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import flags
    >>> X, _ = make_granger_plant(3, n_samples=3000, container="frame", random_state=0)
    >>> detector = FederatedRCADetector(evidence="flags").fit(X[:2600])
    >>> flags(detector, X[2600:]).columns[:2].tolist()
    ['unit0__Z_c', 'unit0__Z_a']
    """
    asked = fitted(est, AskedWatch, "flags")
    if est.signs != "flags":
        raise ValueError('Flags belong to the paper\'s inference; fit with evidence="flags".')
    columns = [f"{name}__{z}" for name in est.client_names_ for z in ("Z_c", "Z_a")]
    with asked.about(X, inputs, lengths, watched=True) as units:
        found = flag_array(asked.evidence(units), est.client_names_)
        return pd.DataFrame(found.reshape(len(found), -1), columns=columns, index=units.index)
