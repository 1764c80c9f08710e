"""What sites and links add: units that are lost, answers that are late, rates of reporting, policies."""

import numpy as np

from skfedcausal import Communication, GradientServer
from skfedcausal.federation import Failure, InProcessTransport, LostUnits
from skfedcausal.papers import StopRule

from ..plants import Plant, at_sites
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    detector,
    driven,
    granger,
    likelihood,
    made,
    record,
)

_RULE = LostUnits(quorum=2)


class _Losing(InProcessTransport):
    """Loses the answers of one unit from a round on."""

    def __init__(self, workers, unit="unit1", first=1):
        super().__init__(workers)
        self._unit, self._first = unit, first

    def exchange(self, out, *, timeout=None):
        kept = {n: p for n, p in out.items() if n != self._unit or p.round < self._first}
        return super().exchange(kept, timeout=timeout) | dict.fromkeys(set(out) - set(kept), Failure("timeout"))


def _losing(kind, first=1, **settings):
    how = Communication(lost_units=_RULE, transport=lambda sites: _Losing(sites, first=first))
    return made(kind, communication=how, **settings)


def _four():
    return record(4, 500, links=((0, 2), (2, 3)))


def _at_other_rates():
    """A unit that reports every second row only."""
    found = record(n_samples=900)
    found.X["unit2"][np.arange(900) % 2 == 1] = np.nan
    return found


def _content():
    """A unit whose record is out of all proportion."""
    found = _four().settled()
    found.X["unit3"] *= 2.0**30
    return found


PLANTS = [
    Plant("a unit that is lost", _losing(granger), _four, {**LEARNED, "links": lambda f: f.estimator.links_}, ABOUT),
    Plant("a unit that is lost later", _losing(granger, first=2, server=likelihood(n_rounds=3)), _four, LEARNED, ABOUT),
    Plant(
        "a unit that is lost in training",
        _losing(granger, first=3, server=GradientServer(stop=StopRule(max_iter=4, tol=0.0))),
        _four,
        LEARNED,
        ABOUT,
    ),
    Plant(
        "a unit with inputs that is lost",
        _losing(counterfactual, first=2),
        lambda: driven(4, 500),
        {**LEARNED, "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=3)},
        ABOUT,
    ),
    Plant("a watched unit that is lost", _losing(detector), _four, {**LEARNED, "incidents": ask("incidents")}, ABOUT),
    Plant(
        "a unit out of proportion",
        made(granger, communication=Communication(lost_units=LostUnits())),
        _content,
        LEARNED,
        ABOUT,
    ),
    Plant(
        "units at other rates",
        granger,
        _at_other_rates,
        {**LEARNED, "predict": ask("predict"), "score": ask("score"), "test_links": ask("test_links")},
        ABOUT,
        {"at sites": at_sites},
    ),
    Plant(
        "watched units at other rates",
        detector,
        _at_other_rates,
        {**LEARNED, "incidents": ask("incidents"), "transform": ask("transform")},
        ABOUT,
        {"at sites": at_sites},
    ),
]
