"""The protocol of Table 4 (HAI records) on the Tennessee Eastman process, whose records can be had."""

import numpy as np

from skfedcausal import ExtendedKalmanClient, FederatedRCADetector
from skfedcausal.datasets import load_tep
from skfedcausal.metrics import alarm_report
from skfedcausal.server.watching.flags import roots_of_flags

from .._records import folder_of, no_records
from ._setting import flags_of, no_torch, residuals, trained

TITLE = "Third paper, the protocol of Table 4 on the Tennessee Eastman process"
TEXT = (
    "Five units of 22 continuous measurements and 11 actuators, learned from record d00 (steps of {minutes} "
    "minutes, standardised by it), ARL0 on d00_te, the single-unit faults {faults}. Two states per unit, "
    "networks '{network}', {epochs} epochs. The paper tests on HAI attacks that all begin in one process, "
    "where a constant answer would be right every time; here they begin in several. Right: the first unit "
    "named after onset is the root."
)
FLAGS, OWN = "Flags", "The library's own inference on the same faults"


def missing(s):
    """Why the table cannot be made here."""
    return no_records(["tep"]) or no_torch(s)


def by_unit(frame):
    """Columns ``unit__sensor`` as one array per unit."""
    units = dict.fromkeys(c.split("__")[0] for c in frame.columns)
    return {u: frame[[c for c in frame if c.split("__")[0] == u]].to_numpy() for u in units}


def standardised(train, *others):
    """Records with the mean and scale of the training record, as in the paper."""
    mean, scale = train.mean(), train.std()
    return [by_unit((record - mean) / scale) for record in (train, *others)]


def verdicts(flags, horizon):
    """First unit named from the onset on, and the steps it took; None if nobody is."""
    roots = roots_of_flags(flags, horizon, horizon // 2 + 1)
    named = np.flatnonzero(roots >= 0)
    return (int(roots[named[0]]), int(named[0])) if len(named) else (None, None)


def oracle(fit, nominal, faulty):
    """Residuals by unit of an extended Kalman filter of the pooled table: fit, nominal, faults; states."""
    sizes = np.cumsum([Y.shape[1] for Y in fit.values()])[:-1]
    client = ExtendedKalmanClient(n_states=2 * len(fit), hidden=64, random_state=0)
    client.fit(np.hstack(list(fit.values())))

    def split(record):
        Y = np.hstack(list(record.values()))
        rest = np.split(Y - client.h_map_.value(client.filter_moments(Y)[0]), sizes, axis=1)
        return {name: (r,) for name, r in zip(fit, rest, strict=True)}

    states = client.filter_moments(np.hstack(list(fit.values())))[2]
    return split(fit), split(nominal), {k: split(record) for k, record in faulty.items()}, states


def onset(test):
    """First faulty row."""
    return int(np.flatnonzero(test.target != "")[0])


def alarms(quiet, flags, tests, minutes):
    """Run lengths in minutes."""
    delays = []
    for k, f in flags.items():
        hits = np.flatnonzero(f[onset(tests[k]) :].any(axis=1))
        delays.append(hits[0] + 1 if len(hits) else np.nan)
    calm = alarm_report(quiet.any(axis=1), [])["arl0"]
    return {
        "ARL0 (min)": minutes * calm if np.isfinite(calm) else None,
        "ARL1 (min)": minutes * np.nanmean(delays),
        "detected": int(np.isfinite(delays).sum()),
    }


def judged(flags, tests, names, horizon, minutes):
    """Faults whose root is named right, wrong or not at all, and the delay of the first name."""
    counts, delays = {"right": 0, "wrong": 0, "none": 0}, []
    for k, f in flags.items():
        first = onset(tests[k])
        root, steps = verdicts(f[first:], horizon)
        truth = tests[k].target[first]
        counts["none" if root is None else "right" if names[root] == truth else "wrong"] += 1
        delays += [] if steps is None else [minutes * (steps + 1)]
    return counts | {"RCA delay (min)": [np.mean(delays), np.std(delays)] if delays else None}


def own_inference(folder, tests):
    """Right, wrong and undecided or silent answers of the default detector."""
    both = load_tep(folder, ["d00", "d00_te"])
    detector = FederatedRCADetector().fit(both.data, lengths=both.lengths)
    counts = {"right": 0, "wrong": 0, "undecided or silent": 0}
    for test in tests.values():
        found = detector.incidents(test.data)
        found = found[found.detected >= onset(test)]
        silent = found.empty or found.root.iloc[0] == "undecided"
        truth = test.target[onset(test)]
        counts["undecided or silent" if silent else "right" if found.root.iloc[0] == truth else "wrong"] += 1
    return [{"": "default settings, learned from d00 and d00_te", **counts}]


def figures(s):
    """Sections of the page."""
    folder, minutes = folder_of() / "tep", s["minutes"]
    train = load_tep(folder, ["d00"]).data
    held = load_tep(folder, ["d00_te"]).data
    tests = {k: load_tep(folder, [f"d{k:02d}_te"]) for k in s["faults"]}
    fit, nominal, *faulty = standardised(train, held, *(t.data for t in tests.values()))
    faulty = dict(zip(tests, faulty, strict=True))
    return {
        FLAGS: protocol(s, fit, nominal, faulty, tests, minutes),
        OWN: own_inference(folder, tests),
    }


def protocol(s, fit, nominal, faulty, tests, minutes):
    """Rows of Table 4: run lengths of three models and roots by flags, at every percentile."""
    detector = trained(s, fit)
    known, calm = residuals(detector, fit), residuals(detector, nominal)
    rest = {k: residuals(detector, record) for k, record in faulty.items()}
    pooled = oracle(fit, nominal, faulty)
    names, rows = list(fit), []
    for percentile in s["percentiles"]:
        quiet = flags_of(known, calm, percentile)
        flags = {k: flags_of(known, r, percentile) for k, r in rest.items()}
        central = [flags_of(pooled[0], pooled[1], percentile)[:, :, 0]]
        central.append({k: flags_of(pooled[0], r, percentile)[:, :, 0] for k, r in pooled[2].items()})
        models = {
            "proprietary": (quiet[:, :, 0], {k: f[:, :, 0] for k, f in flags.items()}),
            "framework": (quiet[:, :, 1], {k: f[:, :, 1] for k, f in flags.items()}),
            "pooled oracle": central,
        }
        for model, (calm_flags, fault_flags) in models.items():
            label = f"{percentile:g} %, {model}"
            rows.append({"": label, "roots": "", **alarms(calm_flags, fault_flags, tests, minutes)})
        for horizon in s["horizons"]:
            label = {"": f"{percentile:g} %, framework", "roots": f"horizon {horizon}"}
            rows.append(label | judged(flags, tests, names, horizon, minutes))
    return rows
