"""What an estimator hands out to functions that ask it, so that they reach nothing else of it."""

from types import SimpleNamespace


class Asked(SimpleNamespace):
    """What functions of `skfedcausal.inspection` reach of any estimator.

    `about` a record, or with None that of the sites, and `models`, what units learned, are context managers of
    :class:`~skfedcausal.estimators._queries.QueriedUnits`; `read` gives a record in the layout of `fit`; `at_sites`
    says whether the plant was learned from sites.
    """


class AskedPlant(Asked):
    """The same of an estimator of a plant.

    `check_rows` refuses what is about rows after a fit from sums. `learned_from` fits another estimator to a record
    that was read, `next_batches` and `renew` go on with a plant that is learned batch by batch, and `keep_benefit`
    takes a table that the estimator is to show. `row_time` is the time from row to row, None where nobody told it,
    `undecidable` names units of which added noise may hide states, and `acting` the attributes that hold what acts on
    the states.
    """


class AskedInputs(AskedPlant):
    """The same where inputs were learned, whose `effects` are asked for."""


class AskedWatch(Asked):
    """The same of a detector.

    `stream` and `follow` are about the stream it follows, `evidence` about what units send, `kept` and `layout` about
    what units in this process keep. `coded` gives a record, and inputs beside it, with codes in place of modes;
    `levels_and_times` and `incidents_and_levels` are what pages show, and `n_levels` counts the nominal levels.
    """
