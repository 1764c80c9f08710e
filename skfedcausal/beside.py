"""What the core uses of the rooms beside it, each imported when it is asked for: there is no other way to them.

A room beside the core can be left out of sight by who works on the core; `tests/test_rooms.py` keeps it so.
"""

from importlib import import_module

HOMES = {
    "ImpactDisplay": "displays",
    "PlantTable": "historian.table",
    "cells_of": "historian.forms",
    "damage": "quality.tags",
    "impact_page": "reports.impact",
    "incident_page": "reports",
    "ledger_page": "reports.page",
    "plant_page": "reports",
    "training_noise": "papers.client.noise",
    "warn_of_clocks": "quality.clocks",
    "with_dealer": "secure.client",
}


def beside(name):
    """Function or class of a room beside the core.

    Parameters
    ----------
    name : str
        One of those that the core uses.

    Returns
    -------
    object

    Examples
    --------
    >>> from skfedcausal.beside import beside
    >>> beside("plant_page").__module__
    'skfedcausal.reports.plant'
    """
    return getattr(import_module(f".{HOMES[name]}", __package__), name)
