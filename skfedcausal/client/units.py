"""The units of a plant whose records are in this process: released, and each with a worker of its own."""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ..arguments import warn
from ..containers.arrays import listed, n_moving
from ..federation.exchange import Site
from ..federation.gate import ExactStatesWarning, tells_exactly
from ..privacy.calibration import into_ball
from ..privacy.mechanism import bounds_of
from ..seeding import seeded
from .extended_kalman import ExtendedKalmanClient
from .kalman import KalmanClient
from .unit_model import under_noise
from .watching import Batch, Feed
from .worker import UnitWorker, flags_of, off_baseline, own_record

_KEPT = (  # what a unit keeps of a fit for other records
    "client", "augmenter", "transition", "input_matrix", "input_mean", "phi", "loading_error", "n_states", "silence",
    "flags", "monitor", "fit", "tags", "habits", "stops", "dtype",
)  # fmt: skip


def client_templates(client, names, random_state=None):
    """Template of each unit's model; one that is still to be learned and draws gets the seed."""
    client = KalmanClient() if client is None else client
    if isinstance(client, Mapping):
        if set(client) != set(names):
            raise ValueError(
                f"`client` names {sorted(client)}, the data have the units {sorted(names)}; give one client per unit."
            )
        given = dict(client)
    elif isinstance(client, list | tuple):
        if len(client) != len(names):
            raise ValueError(
                f"Got {len(client)} clients for {len(names)} units ({', '.join(names)}); give one per unit."
            )
        given = dict(zip(names, client, strict=True))
    else:
        given = dict.fromkeys(names, client)
    for name, part in given.items():
        if isinstance(part, ExtendedKalmanClient) and not part.is_fitted:
            given[name] = seeded(part, random_state)
    return given


def released(mechanism, plant, noise=None, learning=False):
    """A record as everything outside the units sees it, and the noise of each unit.

    A mechanism that adds its noise later clips the record at most. `noise` is that of an earlier release, to
    be used again.
    """
    if mechanism is None or mechanism.place == "gradients":
        return plant, {}
    records = dict(zip(plant.names, plant.outputs, strict=True))
    if mechanism.place == "messages" and learning:
        inside = {name: into_ball(Y, bounds_of(mechanism, name, Y)) for name, Y in records.items()}
        return replace(plant, outputs=tuple(inside.values())), {}
    releases = mechanism.release(records, plant.lengths, noise=noise)
    outputs = tuple(releases[name].values for name in plant.names)
    return replace(plant, outputs=outputs), {name: release.noise for name, release in releases.items()}


def new_units(plant, templates, augmenter, noise, *, training=(), home=None):
    """Units that are to learn from a released record; `home` is the raw one, where flags are randomised."""
    settings = {}
    for k, name in enumerate(plant.names):
        settings[name] = {
            "client": templates[name],
            "augmenter": augmenter,
            "noise": noise[name].variance if name in noise else None,
            "training_noise": dict(training).get(name),
            "home": None if home is None else home.outputs[k],
        }
    return _units_about(plant, settings, {})


def warn_of_exact_states(plant, slices):
    """Names of units whose states, at `slices` of the plant's, tell their sensors exactly; a warning names them."""
    sizes = {name: part.stop - part.start for name, part in slices.items()}
    records = dict(zip(plant.names, plant.outputs, strict=True))
    exact = [name for name, n_states in sizes.items() if tells_exactly(n_states, n_moving(records[name]))]
    if exact:
        warn(
            f"The states of {listed(exact, 4)} are as many as the sensors that move: whoever receives them can compute "
            "these sensors exactly. Nothing leaves this process; a site sends them only with `allow_exact = true` in "
            "its policy. Give such a unit more sensors, or fewer states (`n_states` of its client).",
            ExactStatesWarning,
        )
    return exact


def kept_states(sites, quiet=False):
    """What every unit keeps of a fit, without what units notice of records where they are to be `quiet`.

    Nothing where workers elsewhere have answered.
    """
    kept = [key for key in _KEPT if not (quiet and key in ("silence", "habits"))]
    return {
        name: {key: site.state[key] for key in kept if key in site.state} for name, site in sites.items() if site.state
    }


def known_units(plant, noise, kept):
    """Units about another record as it was released, with the noise on it and what they keep of a fit."""
    return _units_about(plant, {}, {name: _watched(kept[name], noise.get(name)) for name in plant.names})


def further_units(plant, augmenter, kept):
    """Units about the next rows of their record, which go on with the models that they keep."""
    settings = {name: {"augmenter": augmenter} for name in plant.names}
    return _units_about(plant, settings, kept)


def _units_about(plant, settings, states):
    """Units with the parts of a record, further settings of their workers and the states that they begin with."""
    sites = {}
    for name, Y, U, columns in zip(plant.names, plant.outputs, plant.inputs, plant.layout.outputs, strict=True):
        worker = UnitWorker(name, Y, U, plant.starts, columns, index=plant.index, **settings.get(name, {}))
        sites[name] = Site(worker, states.get(name))
    return sites


def _watched(state, noise):
    """State of a unit for a record with other noise than that of the fit."""
    client = state["client"]
    baseline: Any = getattr(client, "baseline_", None)
    if hasattr(baseline, "watched"):
        client = copy(client)
        client.baseline_ = baseline.watched
    if noise is not None:
        client = under_noise(client, noise.variance)
    return {**state, "client": client}


def without_silent(plant, kept):
    """The record with rows missing in which a unit reported no more; a warning names it."""
    outputs = []
    for name, Y in zip(plant.names, plant.outputs, strict=True):
        silence = kept[name].get("silence")
        outputs.append(Y if silence is None else silence.masked(name, Y, plant.starts, plant.index)[0])
    return replace(plant, outputs=tuple(outputs))


def randomised_flags(mechanism, plant, kept, flagger):
    """Flags of all units about their raw records as they may leave, released at once."""
    records = dict(zip(plant.names, plant.outputs, strict=True))
    pairs = {}
    for name, Y in records.items():
        rest = off_baseline(kept[name]["client"], Y, plant.index, plant.starts)[0]
        pairs[name] = flags_of(own_record(kept[name]), rest, plant.starts)
    return mechanism.release(pairs, records=records, flagger=flagger)


def units_alone(kept, layout, **settings):
    """Units without a record, for questions about what they learned; further settings of their workers by unit."""
    sites = {}
    for name, columns in zip(layout.names, layout.outputs, strict=True):
        own = {key: by_unit[name] for key, by_unit in settings.items()}
        sites[name] = Site(UnitWorker(name, np.zeros((0, len(columns))), None, (0,), columns, **own), kept[name])
    return sites


class UnitStreams:
    """The units of a stream, whose rows come batch by batch; each goes on from what it keeps of a fit."""

    def __init__(self, kept, layout):
        self._feeds = {name: Feed() for name in layout.names}
        self.sites = units_alone(kept, layout, monitored=self._feeds)

    def put(self, plant, noised=None):
        """Give every unit its next rows, as `noised` releases them; whether that cost something."""
        rows, charged = dict(zip(plant.names, plant.outputs, strict=True)), False
        if noised is not None:
            rows, charged = noised.release(rows)
        inputs = dict(zip(plant.names, plant.inputs, strict=True))
        for name, Y in rows.items():
            self._feeds[name].put(Batch(Y, index=plant.index, inputs=inputs[name]))
        return charged
