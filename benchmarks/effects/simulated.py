"""Effects of inputs on simulated plants outside the model class: error and coverage beside VARX by AIC."""

import numpy as np

from .._rivals import varx
from .._simulated import PLANTS, moved, record_of, relative_error, share_inside

TITLE = "Effects of inputs on simulated plants"
TEXT = (
    "The first input is moved by 1.2 standard deviations for {n_moved} rows (a switch is turned). Judged is the "
    "effect on all sensors over {n_rows} rows, by the simulator run again under the same noise; {n_known} rows to "
    "learn from, as many draws as seeds. Error: median and largest of the draws, over the size of the true effect (0: "
    "perfect, 1: as good as 'nothing happens'). Band holds: share of 90 % bands that hold the true effect, which "
    "should be 0.90, mean of the draws (rows of one draw are nearly one trial). Every tool is told that the actuators "
    "of 'same row' act at once, skfedcausal also that saturating valves may be curved. VARX by AIC sees the pooled "
    "table."
)


def drawn(kind, seed, s):
    """A record of a plant, the inputs asked about and their true effect."""
    plant, rng = PLANTS[kind](), np.random.default_rng([seed, 17])
    U = plant.drive(rng)
    noise = plant.noise(rng)
    U, Y = plant.closed(U, noise)
    n_known, last = s["n_known"], s["n_known"] + s["n_rows"]
    other = moved(U, n_known, s["n_moved"])
    truth = plant.effect(U, noise, other, n_known, last)
    return record_of(kind, plant, Y[:last], U[:last], n_known), other[:last], truth


def library(record, other, n_past):
    """Effect and its 90 % band by the library."""
    n_known = len(record.known)
    rows = record.tail.iloc[n_known - n_past :].reset_index(drop=True)
    asked = {record.inputs[0]: other[n_known - n_past :, 0]}
    found = record.estimator().fit(record.known).whatif(rows, asked)
    wide = {name: found.pivot(index="time", columns="column", values=name) for name in found.columns[2:]}
    effect, low, high, factual = (
        wide[name][record.outputs].to_numpy()[n_past:] for name in ("effect", "low", "high", "factual")
    )
    return effect, low - factual, high - factual


def autoregression(record, other):
    """Effect by VARX(AIC)."""
    Y, U = record.arrays(record.known)
    scale, input_scale = Y.std(axis=0), U.std(axis=0)
    model = varx((Y - Y.mean(axis=0)) / scale, (U - U.mean(axis=0)) / input_scale, record.before)
    change = ((other - record.arrays(record.tail)[1]) / input_scale)[len(record.known) :]
    return model.response(change) * scale


def measured(kind, seed, s):
    """Errors and coverage of one draw."""
    record, other, truth = drawn(kind, seed, s)
    scale = record.arrays(record.known)[0].std(axis=0)
    effect, low, high = library(record, other, s["n_past"])
    errors = (relative_error(found, truth, scale) for found in (effect, autoregression(record, other)))
    return *errors, share_inside(low, high, truth, s["negligible"])


def figures(s):
    """A row of every plant, and of all."""
    draws = {kind: np.array([measured(kind, seed, s) for seed in s["seeds"]]) for kind in s["kinds"]}
    draws["all plants"] = np.concatenate(list(draws.values()))
    return {"Simulated plants": [row_of(kind, *found.T) for kind, found in draws.items()]}


def row_of(kind, ours, rival, inside):
    """Figures of some draws."""
    return {
        "plant": kind,
        "skfedcausal": np.median(ours),
        "VARX(AIC)": np.median(rival),
        "skfedcausal, largest": ours.max(),
        "VARX(AIC), largest": rival.max(),
        "90 % band holds": inside.mean(),
        "asked": 0.9,
    }
