"""Effects of inputs on simulated plants outside the model class, beside VARX by AIC: error and coverage.

The first input is moved by 1.2 standard deviations for 30 rows (a switch is turned); the effect on all
sensors over 60 rows is compared with the simulator run again under the same noise. Run ``python -m
benchmarks.plants``; ``--factory module:function`` measures another estimator, see `benchmarks.records`.
"""

import argparse
import warnings
from importlib import import_module
from time import process_time

import numpy as np
import pandas as pd

from ._report import table, write
from ._rivals import varx
from ._simulated import PLANTS
from .records import Plant

_KNOWN, _ROWS, _MOVED, _BEFORE = 2840, 60, 30, 100  # rows: learned from, judged, moved, replayed before
_NEGLIGIBLE = 0.02  # share of a sensor's largest effect below which its coverage does not count


class Simulated(Plant):
    """A simulated plant as a record, with what is known of it."""

    timing, curve = "after", "linear"

    @property
    def basis(self):
        return self.curve

    @property
    def sampled(self):
        return dict.fromkeys(self.inputs, self.timing)


def default(plant):
    """The library as it comes, told of timing and of a curve where the plant has one."""
    from .records import default as as_it_comes

    return as_it_comes(plant)


def moved(U):
    """Inputs with the first one moved."""
    other, first, u = U.copy(), _KNOWN, U[:, 0]
    rows = slice(first, first + _MOVED)
    if set(np.unique(u)) <= {0.0, 1.0}:
        other[rows, 0] = 1 - u[rows]
        return other
    low, high = u.min(), u.max()
    step = u.std() if u[rows].mean() < (low + high) / 2 else -u.std()
    other[rows, 0] = np.clip(u[rows] + 1.2 * step, low, high)
    return other


def drawn(kind, seed):
    """A record of a plant, the inputs asked about and their true effect."""
    plant, rng = PLANTS[kind](), np.random.default_rng([seed, 17])
    U = plant.drive(rng)
    noise = plant.noise(rng)
    U, Y = plant.closed(U, noise)
    other = moved(U)
    last = _KNOWN + _ROWS
    truth = plant.effect(U, noise, other, _KNOWN, last)
    names = [f"{unit}__{c}" for unit, own in plant.units.items() for c in own]
    inputs = [f"{unit}__{c}" for unit, own in plant.inputs.items() for c in own]
    data = pd.DataFrame(np.hstack([Y, U])[:last], columns=names + inputs)
    data = data[sorted(data, key=lambda c: list(plant.units).index(c.split("__")[0]))]
    record = Simulated(kind, data.iloc[:_KNOWN], data, inputs)
    record.timing = "before" if plant.before else "after"
    record.curve = plant.basis
    return record, other[:last], truth


def library(factory, record, other):
    """Effect and its 90 % band by the library."""
    estimator = factory(record).fit(record.known)
    first = _KNOWN - _BEFORE
    rows = record.tail.iloc[first:].reset_index(drop=True)
    found = estimator.whatif(rows, {record.inputs[0]: other[first:, 0]})
    wide = {name: found.pivot(index="time", columns="column", values=name) for name in found.columns[2:]}
    effect, low, high, factual = (
        wide[name][record.outputs].to_numpy()[_BEFORE:] for name in ("effect", "low", "high", "factual")
    )
    return effect, low - factual, high - factual


def autoregression(record, other, before):
    """Effect by VARX(AIC)."""
    Y, U = record.arrays(record.known)
    scale, input_scale = Y.std(axis=0), U.std(axis=0)
    mask = np.full(U.shape[1], before)
    model = varx((Y - Y.mean(axis=0)) / scale, (U - U.mean(axis=0)) / input_scale, mask)
    recorded = record.arrays(record.tail)[1]
    x, effect = np.zeros(len(model.A)), []
    for du in ((other - recorded) / input_scale)[_KNOWN:]:
        effect.append(model.C @ x + model.D @ du)
        x = model.A @ x + model.B @ du
    return np.array(effect) * scale


def measured(kind, seed, factory):
    """Error and coverage of one draw, errors of VARX."""
    record, other, truth = drawn(kind, seed)
    scale = record.arrays(record.known)[0].std(axis=0)

    def error(found):
        return float(np.linalg.norm((found - truth) / scale) / np.linalg.norm(truth / scale))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = process_time()
        effect, low, high = library(factory, record, other)
        seconds = process_time() - start
        counts = np.abs(truth) > _NEGLIGIBLE * np.abs(truth).max(axis=0)
        row = {"error": error(effect), "cover": ((low <= truth) & (truth <= high))[counts].mean()}
        row |= {"VARX(AIC)": error(autoregression(record, other, False))}
        row |= {"VARX(AIC), same row": error(autoregression(record, other, True)), "seconds": seconds}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=list(PLANTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--factory", default="benchmarks.plants:default")
    parser.add_argument("--name", default="plants", help="of the file in results")
    arguments = parser.parse_args()
    module, function = arguments.factory.split(":")
    factory, rows = getattr(import_module(module), function), []
    for kind in arguments.plants:
        draws = pd.DataFrame([measured(kind, seed, factory) for seed in range(arguments.seeds)])
        row = {"plant": kind}
        for name in draws:
            row[name] = " ".join(f"{value:.3f}" if name != "seconds" else f"{value:.1f}" for value in draws[name])
        row["cover"] = f"**{draws['cover'].mean():.2f}** of " + row["cover"]
        rows.append(row)
        print(row, flush=True)
    write(
        arguments.name,
        "Effects of inputs on simulated plants",
        f"Relative error of the effect over {_ROWS} rows on all sensors and share of 90 % bands that hold "
        f"the true effect, {arguments.seeds} draws each and the mean share, {_KNOWN} rows to learn from (the rows of "
        "one draw are nearly one trial, so that a share means little alone). The library is told "
        "that the actuators of 'same row' act at once and that saturating valves may be curved. VARX by AIC "
        "sees the pooled table, with inputs from the next row on and from their own row on.",
        table(rows),
    )


if __name__ == "__main__":
    main()
