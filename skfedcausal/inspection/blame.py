"""The tags to blame for an incident, as the unit sees them where it began."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ..client.blame import rows_at_home, tag_names, trend_of, window_of
from ..containers.layout import listed
from ..containers.rows import position
from ..estimators._asked import AskedWatch
from ..given import Lengths, Record
from ..statespace.episodes import episodes
from ._asked import fitted

if TYPE_CHECKING:
    from ..estimators.detector import FederatedRCADetector


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
