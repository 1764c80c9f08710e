"""What an estimator hands out to functions that ask it, so that they reach nothing else of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Asked:
    """What functions of `skfedcausal.inspection` reach of any estimator.

    `about` a record, or with None that of the sites, and `models`, what units learned, are context managers of
    :class:`~skfedcausal.estimators._queries.QueriedUnits`; `read` gives a record in the layout of `fit`.
    """

    about: Callable
    models: Callable
    read: Callable
    at_sites: bool


@dataclass(frozen=True)
class AskedPlant(Asked):
    """The same of an estimator of a plant.

    `learned_from` fits another estimator to a record that was read, `next_batches` and `renew` go on with a plant that
    is learned batch by batch, and `keep_benefit` takes a table that the estimator is to show.
    """

    check_rows: Callable
    learned_from: Callable
    next_batches: Callable
    renew: Callable
    keep_benefit: Callable
    row_time: Any  # from row to row, None where nobody told it
    undecidable: tuple  # units of which added noise may hide states
    acting: tuple[str, ...]  # attributes that hold what acts on the states


@dataclass(frozen=True)
class AskedInputs(AskedPlant):
    """The same where inputs were learned, whose effects are asked for."""

    effects: Callable


@dataclass(frozen=True)
class AskedWatch(Asked):
    """The same of a detector: the stream it follows, what units in this process keep, how pages read its records."""

    stream: Any
    follow: Callable
    evidence: Callable
    kept: dict
    layout: Callable
    coded: Callable  # a record, and inputs beside it, with codes in place of modes
    levels_and_times: Callable
    incidents_and_levels: Callable
    n_levels: Callable  # that are nominal
