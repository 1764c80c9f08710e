"""Plants that are learned batch by batch, in one process and at sites."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from skfedcausal import inspection
from skfedcausal.federation import InProcessTransport
from skfedcausal.sites.site import read_site_settings

from ..plants import Fitted, Plant
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    driven,
    gappy,
    granger,
    lagged,
    likelihood,
    made,
    record,
)

_ASKED = {
    **LEARNED,
    "predict": ask("predict"),
    "transform": ask("transform"),
    "test_links": ask("test_links"),
    "link_effects": ask_nothing("link_effects"),
    "link_intervals": ask_nothing("link_intervals"),
}


def _in_batches(rows, **settings):
    """A way to learn: so many rows at a time."""

    def learn(estimator, record):
        n_rows = len(next(iter(record.X.values())))
        for start in range(0, n_rows, rows):
            estimator.partial_fit(**record.rows(start, start + rows).given(), **settings)

    return learn


def _renewed(estimator, record):
    """The models of one unit are identified anew on the way."""
    for start in (0, 400):
        estimator.partial_fit(record.rows(start, start + 400).X)
    inspection.renew(estimator, "unit0").partial_fit(record.rows(400).X)


def _changing():
    """A unit whose sensors mean something else in the second half."""
    found = record(n_samples=1200)
    found.X["unit0"][600:] = found.X["unit0"][600:, ::-1] * 2.0
    return found


def _at_sites_in_batches(plant, found):
    """Sites that find their batches as files in a folder."""
    with TemporaryDirectory() as home:
        home = Path(home)
        for name, Y in found.X.items():
            (home / f"{name}-watched").mkdir()
            np.save(home / f"{name}.npy", Y[:400])
            for k in (1, 2):
                np.save(home / f"{name}-watched" / f"{k}.npy", Y[400 * k : 400 * (k + 1)])
            settings = f'[site]\nname = "{name}"\ndata = "{name}.npy"\nwatched = "{name}-watched"\n'
            (home / f"{name}.toml").write_text(settings)
        workers = {name: read_site_settings(home / f"{name}.toml").gate().worker for name in found.X}
        return Fitted(inspection.partial_fit_sites(plant.make(), InProcessTransport(workers)), {"X": None}, found)


_LEVEL = made(granger, server=likelihood(level_shifts=None))
PLANTS = [
    Plant("batches", _LEVEL, lambda: record(n_samples=1200), _ASKED, ABOUT, fit=_in_batches(400)),
    Plant(
        "batches of sites",
        _LEVEL,
        lambda: record(n_samples=1200),
        {"plant": LEARNED["plant"], "links": lambda f: f.estimator.links_},
        ABOUT,
        {"at sites": _at_sites_in_batches},
        fit=_in_batches(400),
    ),
    Plant(
        "batches that are forgotten",
        granger,
        lambda: record(n_samples=1200),
        {"plant": LEARNED["plant"]},
        ABOUT,
        fit=_in_batches(400, forget=0.3),
    ),
    Plant(
        "batches with gaps",
        granger,
        lambda: gappy(record(n_samples=900), seed=1),
        {name: question for name, question in _ASKED.items() if name != "link_effects"},  # two tags tell it alike
        ABOUT,
        fit=_in_batches(300),
    ),
    Plant(
        "batches of several lags",
        granger,
        lambda: lagged(1500),
        {**LEARNED, "predict": ask("predict")},
        ABOUT,
        fit=_in_batches(500),
    ),
    Plant(
        "batches with inputs",
        counterfactual,
        lambda: driven(n_samples=900),
        {
            **LEARNED,
            "predict": ask("predict"),
            "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=4, return_std=True),
        },
        ABOUT,
        fit=_in_batches(300),
    ),
    Plant(
        "batches of 33 units",
        _LEVEL,
        lambda: record(33, 800, n_sensors=3, n_states=1, links=None),
        {"plant": LEARNED["plant"]},
        ABOUT,
        fit=_in_batches(400),
    ),
    Plant("a unit that is renewed", granger, lambda: record(n_samples=1200), LEARNED, ABOUT, fit=_renewed),
    Plant("a unit that has changed", granger, _changing, LEARNED, ABOUT, fit=_in_batches(600)),
]
