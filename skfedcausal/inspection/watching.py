"""What is asked while a plant is watched or learned batch by batch: sites, operators, flags, tags to blame."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ..arguments import Inputs, Lengths, Record
from ..client.watching import rows_at_home, tag_names, trend_of, window_of
from ..containers.arrays import as_names, listed, refuse_unknown
from ..containers.rows import position
from ..estimators._parts import AskedPlant, AskedWatch
from ..estimators._watching import flag_array
from ..statespace.episodes import episodes
from ._asked import asked_of, fitted

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator
    from ..estimators.detector import FederatedRCADetector


# The tags to blame for an incident, as the unit sees them where it began.


class IncidentAtHome(NamedTuple):
    """An incident as the unit sees it where it began: the unit, its tags and the model that judges them.

    Its rows of the episode, (n_samples, n_tags), their labels, and the window of the incident in them.
    """

    unit: str
    tags: list
    model: Any
    values: np.ndarray
    labels: pd.Index
    start: int
    stop: int


def tags(est: "FederatedRCADetector", X: Record, incident: Any, *, lengths: Lengths = None) -> pd.DataFrame:
    """Tags of the unit where an incident began, the one to blame first: what the unit finds in its own rows.

    Parameters
    ----------
    est : FederatedRCADetector
        Fitted.
    X : list, dict, DataFrame or ndarray
        The record in which the incident was found.
    incident : Series or DataFrame
        Row of ``incidents(X)``; of a table its first row.
    lengths : sequence of int, default=None

    Returns
    -------
    DataFrame
        One row per tag: ``unit, tag``, ``explained``, the share of what is unusual about the unit's rows that
        goes if this tag is not believed, and ``why`` in words for a tag that repeats one value or never moved in
        `fit`.

    Raises
    ------
    ValueError
        If `incident` is no row of `incidents`, or its unit is at a site of its own: the site has its own
        table beside the incidents in its folder.

    Notes
    -----
    The unit judges by an autoregression of its own tags, learned in `fit`. Nothing but the verdict about the
    incident is known to it of the other units, and nothing leaves it. A share that several tags have alike says
    that the process is unusual, not a tag.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import tags
    >>> X, _ = make_granger_plant(3, n_samples=3000, container="frame", random_state=0)
    >>> detector = FederatedRCADetector().fit(X[:2600])
    >>> faulty = X[2600:].reset_index(drop=True)
    >>> faulty.loc[200:, "unit2__s1"] += 5 * faulty["unit2__s1"].std()
    >>> incidents = detector.incidents(faulty).query("detected >= 200")
    >>> tags(detector, faulty, incidents)["tag"].iloc[0]
    'unit2__s1'
    """
    here = _at_home(est, X, incident, lengths, "tags")
    found = here.model.blame(here.values, here.start, here.stop)
    names = np.array(here.tags, dtype=object)[found.order]
    why = np.array(found.why, dtype=object)[found.order]
    return pd.DataFrame({"unit": here.unit, "tag": names, "explained": found.explained[found.order], "why": why})


def tag_trend(
    est: "FederatedRCADetector",
    X: Record,
    incident: Any,
    tag: str | Sequence[str] | None = None,
    *,
    lengths: Lengths = None,
) -> pd.DataFrame | list[pd.DataFrame]:
    """A tag around an incident, and what the unit's other tags would have it be.

    Parameters
    ----------
    est : FederatedRCADetector
        Fitted.
    X : list, dict, DataFrame or ndarray
        The record in which the incident was found.
    incident : Series or DataFrame
        Row of ``incidents(X)``.
    tag : str or list of str, default=None
        A tag of the unit where it began, or several; None for the first one of :func:`tags`.
    lengths : sequence of int, default=None

    Returns
    -------
    DataFrame, or a list of them
        ``measured, expected, low, high`` by row or time; the band is two standard deviations. Named after the tag.

    Raises
    ------
    ValueError
        If the tag is none of the unit's, and as :func:`tags`.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import tag_trend
    >>> X, _ = make_granger_plant(3, n_samples=3000, container="frame", random_state=0)
    >>> detector = FederatedRCADetector().fit(X[:2600])
    >>> faulty = X[2600:].reset_index(drop=True)
    >>> faulty.loc[200:, "unit2__s1"] += 5 * faulty["unit2__s1"].std()
    >>> incidents = detector.incidents(faulty).query("detected >= 200")
    >>> tag_trend(detector, faulty, incidents).columns.tolist()
    ['measured', 'expected', 'low', 'high']
    """
    here = _at_home(est, X, incident, lengths, "tag_trend")
    rows = here.start, here.stop
    wanted = tag if isinstance(tag, list) else [tag]
    if tag is None:
        wanted = [here.tags[here.model.blame(here.values, *rows).order[0]]]
    for name in wanted:
        if name not in here.tags:
            raise ValueError(f"Got tag={name!r}; {here.unit!r} has {listed(here.tags)}.")
    places = [here.tags.index(name) for name in wanted]
    found = [trend_of(here.model, here.values, k, *rows, here.labels, here.tags[k]) for k in places]
    return found if isinstance(tag, list) else found[0]


def one_incident(given, keys):
    """A row of `incidents`, the first of a table, which has some keys."""
    if isinstance(given, pd.DataFrame):
        if given.empty:
            raise ValueError("Got a table without incidents; give one row of `incidents(X)`.")
        given = given.iloc[0]
    if not isinstance(given, (pd.Series, Mapping)):
        raise TypeError(f"Got {given!r} as an incident; give one row of `incidents(X)`.")
    absent = [key for key in keys if key not in given]
    if absent:
        raise ValueError(f"Got an incident without {', '.join(absent)}; give one row of `incidents(X)`.")
    return given


def _at_home(est, X, incident, lengths, question):
    """The :class:`IncidentAtHome` of a row of `incidents`."""
    asked = fitted(est, AskedWatch, question)
    incident = one_incident(incident, ("start", "detected", "end", "ranking"))
    unit = incident["ranking"][0][0]
    kept = asked.kept.get(unit, {})
    if "tags" not in kept:
        raise ValueError(f"What unit {unit!r} knows of its tags is at its site: see `tags` beside its incidents there.")
    plant = asked.read(X, lengths=lengths)
    index = plant.index if isinstance(plant.index, pd.DatetimeIndex) else None
    row = position(_plain(incident["detected"]), index)
    first, last = next((i, j) for i, j in episodes(plant.starts, plant.n_samples) if i <= row < j)
    Y = rows_at_home(plant, unit, kept["client"], slice(first, last))
    start = position(_plain(incident["start"]), index) - first
    end: int = plant.n_samples - 1 if pd.isna(incident["end"]) else position(_plain(incident["end"]), index)
    rows = window_of(max(start, 0), row - first, end - first, len(Y))
    labels = pd.RangeIndex(first, first + len(Y)) if index is None else index[first : first + len(Y)]
    return IncidentAtHome(unit, tag_names(asked.layout(), unit), kept["tags"], Y, labels, *rows)


def _plain(row):
    """A row number as it comes out of a table."""
    return row if isinstance(row, pd.Timestamp) else int(row)


# What is asked while a plant is watched: sites to be followed, what operators say, flags of units.


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


# A plant that is learned batch by batch: what is asked beside `partial_fit`.


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
