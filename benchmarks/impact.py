"""What a move did, on records that hold it: `impact` beside a structural time series with fair regressors.

The first input is moved by 1.2 standard deviations for 30 rows (a switch is turned) in a record that goes on under
the move; asked is what it did to all sensors in 60 rows from then on, judged by the simulator without the move under
the same noise. Rivals see the pooled table: statsmodels' UnobservedComponents with a local level, which is what
CausalImpact fits, with 26 lags of all inputs as regressors, and with those of the untouched inputs alone. Run
``python -m benchmarks.impact``.
"""

import argparse
import warnings
from time import process_time

import numpy as np
import pandas as pd
from statsmodels.tsa.statespace.structural import UnobservedComponents

from ._report import table, write
from ._rivals import lagged
from ._simulated import PLANTS
from .plants import _BEFORE, _KNOWN, _NEGLIGIBLE, _ROWS, Simulated, default, moved

_KINDS = ("dead time", "four tanks, upper hidden", "on/off pump of three units")
_LAGS, _CONFIDENCE = 26, 0.9


def realised(kind, seed):
    """A record that holds the move, the inputs without it, and what it did."""
    plant, rng = PLANTS[kind](), np.random.default_rng([seed, 29])
    U = plant.drive(rng)
    noise, last = plant.noise(rng), _KNOWN + _ROWS
    other = moved(U)
    without, Y = plant.simulate(U, noise), plant.simulate(other, noise)
    names = [f"{unit}__{c}" for unit, own in plant.units.items() for c in own]
    inputs = [f"{unit}__{c}" for unit, own in plant.inputs.items() for c in own]
    data = pd.DataFrame(np.hstack([Y, other])[:last], columns=names + inputs)
    data = data[sorted(data, key=lambda c: list(plant.units).index(c.split("__")[0]))]
    record = Simulated(kind, data.iloc[:_KNOWN], data, inputs)
    record.timing, record.curve = ("before" if plant.before else "after"), plant.basis
    return record, U[:last], (Y - without)[_KNOWN:last]


def library(record, untouched):
    """Effect and its band by `impact`."""
    rows = record.tail.iloc[_KNOWN - _BEFORE :].reset_index(drop=True)
    estimator = default(record).fit(record.known)
    window = (_BEFORE, _BEFORE + _ROWS)
    found = estimator.impact(rows, {record.inputs[0]: untouched[_KNOWN:, 0]}, window, confidence=_CONFIDENCE)
    wide = (found.table.pivot(index="time", columns="column", values=f)[record.outputs] for f in _FIELDS)
    return tuple(frame.to_numpy()[_BEFORE:] for frame in wide)


_FIELDS = ("effect", "effect_low", "effect_high")


def structural(record, untouched, columns):
    """The same by a local level with lags of some inputs, sensor by sensor.

    Its variances are those of what least squares leave, its regressors are states: all at once it takes minutes.
    """
    Y = record.arrays(record.tail)[0]
    Z = lagged(untouched[:, columns], range(_LAGS), len(untouched), _LAGS)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    n_known, found = _KNOWN - _LAGS, []
    for y in Y.T:
        known = y[_LAGS:_KNOWN]
        rest = known - Z[:n_known] @ np.linalg.lstsq(Z[:n_known], known - known.mean(), rcond=None)[0]
        variances = UnobservedComponents(rest, "local level").fit(disp=False).params
        model = UnobservedComponents(known, "local level", exog=Z[:n_known], mle_regression=False)
        ahead = model.smooth(variances).get_forecast(_ROWS, exog=Z[n_known:])
        low, high = np.asarray(ahead.conf_int(alpha=1 - _CONFIDENCE)).T
        late = y[_KNOWN:]
        found.append((late - ahead.predicted_mean, late - high, late - low))
    return tuple(np.column_stack(part) for part in zip(*found, strict=True))


def judged(found, truth, scale):
    """Relative error of an effect, whether the signs of its sums are right, share of its bands that hold the truth."""
    effect, low, high = found
    sums = truth.sum(axis=0)
    clear = np.abs(sums / scale) > _NEGLIGIBLE * np.abs(sums / scale).max()
    counts = np.abs(truth) > _NEGLIGIBLE * np.abs(truth).max(axis=0)
    return {
        "error": float(np.linalg.norm((effect - truth) / scale) / np.linalg.norm(truth / scale)),
        "sign": bool((np.sign(effect.sum(axis=0)) == np.sign(sums))[clear].all()),
        "cover": float(((low <= truth) & (truth <= high))[counts].mean()),
    }


def measured(kind, seed, rivals):
    """One row per tool about one draw."""
    record, untouched, truth = realised(kind, seed)
    scale, everything = record.arrays(record.known)[0].std(axis=0), list(range(untouched.shape[1]))
    tools = {"impact": lambda: library(record, untouched)}
    if rivals:
        tools["local level, 26 lags of all inputs"] = lambda: structural(record, untouched, everything)
        tools["local level, untouched inputs"] = lambda: structural(record, untouched, everything[1:])
    rows = []
    for tool, ask in tools.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = process_time()
            found = ask()
        row = {"plant": kind, "tool": tool, "seed": seed, **judged(found, truth, scale)}
        rows.append(row | {"seconds": process_time() - start})
    return rows


def summary(rows):
    """Median error, right signs, mean cover and median seconds by plant and tool."""
    frame = pd.DataFrame(rows)
    found = []
    for (kind, tool), part in frame.groupby(["plant", "tool"], sort=False):
        found.append(
            {
                "plant": kind,
                "tool": tool,
                "median error": f"{part['error'].median():.3f}",
                "largest": f"{part['error'].max():.3f}",
                "signs right": f"{part['sign'].sum()} of {len(part)}",
                "cover": f"{part['cover'].mean():.2f}",
                "seconds": f"{part['seconds'].median():.1f}",
            }
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", nargs="+", choices=_KINDS, default=_KINDS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--alone", action="store_true", help="without the rivals")
    arguments = parser.parse_args()
    rows = []
    for kind in arguments.plants:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            rows += measured(kind, seed, not arguments.alone)
        print(pd.DataFrame(summary(rows)).to_string(), flush=True)
    own = pd.DataFrame(rows).query("tool == 'impact'")
    write(
        "impact",
        "What a move did",
        f"An input moved in the record for 30 rows; effect over {_ROWS} rows on all sensors, {arguments.seeds} draws a "
        f"plant, {_KNOWN} rows to learn from. Error: relative, Frobenius norm of scaled sensors. Signs: of the summed "
        f"effect on every sensor that moves. Cover: share of {_CONFIDENCE:.0%} bands that hold the true effect. Local "
        "level: statsmodels' UnobservedComponents by sensor, learned from the rows before the move.",
        f"- `impact` over all draws: median error {own['error'].median():.3f}, signs right in {own['sign'].sum()} of "
        f"{len(own)}, cover {own['cover'].mean():.3f}",
        table(summary(rows)),
    )


if __name__ == "__main__":
    main()
