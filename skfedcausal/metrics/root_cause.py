"""How well incidents were found and named: precision, recall, run lengths, delays, calibration."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arguments import as_floats
from ..containers.rows import position

_ROUNDING = 1e-9  # by which a sum of probabilities may exceed one


def incident_report(
    incidents: pd.DataFrame, faults: Any, n_samples: int, *, tolerance: int = 2, index: Any = None
) -> dict[str, Any]:
    """Match incidents to known faults.

    Parameters
    ----------
    incidents : DataFrame
        With columns ``detected`` and ``root``, positions from 0 or, with `index`, times.
    faults : sequence of tuple (first row, row after the last, unit)
        Positions or, with `index`, times.
    n_samples : int
    tolerance : int, default=2
        Steps after a fault in which a detection still counts as its own.
    index : DatetimeIndex of shape (n_samples,), default=None
        Times of the rows.

    Returns
    -------
    dict
        ``precision, recall, f1``: an incident is right if it was detected within a fault and names its unit;
        every fault counts once, undecided incidents count as missed but not as wrong. ``detected``: share of
        faults with an incident of any name. ``top1``: share of detected faults whose first decided incident
        names the unit. ``delay``: mean steps from onset to detection, given detection. ``false_alarms``:
        incidents outside all faults. ``arl0``: nominal steps per false alarm. ``arl1``: the same as `delay`
        plus one: steps needed, given detection; it cannot exceed a fault's length.

    Raises
    ------
    TypeError
        If incidents or faults are given as times and `index` is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.metrics import incident_report
    >>> incidents = pd.DataFrame({"detected": [12, 40], "root": ["a", "b"]})
    >>> report = incident_report(incidents, [(10, 20, "a")], 100)
    >>> report["precision"], report["recall"], report["delay"]
    (0.5, 1.0, 2.0)
    """
    detected = np.array([position(row, index) for row in incidents["detected"]], dtype=int)
    faults = [(position(first, index), position(stop, index), unit) for first, stop, unit in faults]
    roots = np.asarray(incidents["root"], dtype=str)
    matched = np.full(len(detected), -1)
    for k, (first, stop, _) in enumerate(faults):
        matched[(detected >= first) & (detected < stop + tolerance)] = k
    decided = roots != "undecided"
    right, n_wrong, delays = 0, int((decided & (matched < 0)).sum()), []
    for k, (first, _, unit) in enumerate(faults):
        mine = matched == k
        if mine.any():
            delays.append(detected[mine].min() - first)
        for answer in roots[mine & decided][:1]:  # the first that was decided
            right += answer == unit
            n_wrong += answer != unit
    nominal = n_samples - sum(stop - first for first, stop, _ in faults)
    false_alarms = int((matched < 0).sum())
    delay = _mean(delays)
    return _scores(right, right + n_wrong, len(faults)) | {
        "detected": len(delays) / len(faults) if faults else np.nan,
        "top1": right / len(delays) if delays else np.nan,
        "delay": delay,
        "arl0": nominal / false_alarms if false_alarms else np.inf,
        "arl1": delay + 1,
        "false_alarms": false_alarms,
    }


def naming_report(roots: ArrayLike, faults: Any) -> dict[str, Any]:
    """Precision, recall and delay of roots that are named at every step, the third paper's count.

    Parameters
    ----------
    roots : array-like of str of shape (n_samples,)
        As of :meth:`~skfedcausal.FederatedRCADetector.predict_root_cause`; "" and "undecided" name nobody.
    faults : sequence of tuple (first row, row after the last, unit)

    Returns
    -------
    dict
        ``precision, recall, f1`` over steps: a name is right at a step of a fault of that unit. ``delay`` and
        ``delay_std``: mean and standard deviation of the steps from onset to the first right name, given one
        while the fault lasts; ``named``: share of faults with one.

    See Also
    --------
    incident_report : Counts incidents, not steps.

    Examples
    --------
    >>> from skfedcausal.metrics import naming_report
    >>> report = naming_report(["", "a", "b", "a", ""], [(2, 5, "a")])
    >>> report["precision"], report["recall"], report["delay"]
    (0.3333333333333333, 0.3333333333333333, 1.0)
    """
    roots = np.asarray(roots, dtype=str)
    named = (roots != "") & (roots != "undecided")
    truth, delays = np.full(len(roots), "", dtype=object), []
    for first, stop, unit in faults:
        truth[first:stop] = unit
        hits = np.flatnonzero(roots[first:stop] == unit)
        delays += [hits[0]] if len(hits) else []
    right, in_fault = int((named & (roots == truth)).sum()), int((truth != "").sum())
    return _scores(right, int(named.sum()), in_fault) | {
        "delay": _mean(delays),
        "delay_std": float(np.std(delays)) if delays else np.nan,
        "named": len(delays) / len(faults) if len(faults) else np.nan,
    }


def expected_calibration_error(probability: ArrayLike, correct: ArrayLike, n_bins: int = 10) -> float:
    """Mean distance between stated probability and fraction correct, over bins of probability [1]_.

    Parameters
    ----------
    probability : array-like of shape (n_answers,)
    correct : array-like of shape (n_answers,)
        Whether each answer was right.
    n_bins : int, default=10

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are no answers, not as many as probabilities, or what is no probability.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks, ICML.

    Examples
    --------
    >>> from skfedcausal.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0.9, 0.9, 0.6], [1, 1, 0]), 3)
    0.267
    """
    words = "one number for each answer"
    probability, correct = as_floats(probability, "`probability`", words), as_floats(correct, "`correct`", words)
    if probability.shape != correct.shape or probability.ndim != 1 or len(correct) == 0:
        shapes = f"Got probabilities of shape {probability.shape} and answers of shape {correct.shape}"
        raise ValueError(f"{shapes}; give one of each per answer, and one answer at least.")
    if not ((probability >= -_ROUNDING) & (probability <= 1 + _ROUNDING)).all():
        raise ValueError("Got what is no probability: every one has to lie between 0 and 1.")
    bins = np.clip((probability * n_bins).astype(int), 0, n_bins - 1)
    error = 0.0
    for k in np.unique(bins):
        here = bins == k
        error += here.mean() * abs(probability[here].mean() - correct[here].mean())
    return float(error)


def alarm_report(alarms: ArrayLike, faults: Any) -> dict[str, Any]:
    """Run lengths without a fault and detection delays with one.

    Parameters
    ----------
    alarms : array-like of bool, shape (n_samples,)
        Whether any unit is in alarm.
    faults : sequence of tuple (first row, row after the last, ...)
        In time order; what else a tuple holds is not looked at.

    Returns
    -------
    dict
        ``arl0``: nominal steps per step in alarm. ``wait``: mean steps from a nominal step to the first
        alarm, what a user who starts at a random time waits (longer where alarms come in clusters);
        segments end where a fault begins, and a segment without an alarm counts with its length, so that it
        is a lower bound. ``detected``: share of faults with an alarm while they last. ``delay``: mean steps
        from onset to the first alarm, given detection; it is below the length of a fault. ``arl1``: delay
        plus one, the steps needed. ``gap``: mean steps from one detected fault to the next, which grows with
        every fault missed and is no delay.

    Raises
    ------
    ValueError
        If `alarms` are no booleans, such as the +1 and -1 of a detector's `predict`.

    Examples
    --------
    >>> from skfedcausal.metrics import alarm_report
    >>> report = alarm_report([0, 1, 0, 0, 0, 1, 1, 0], [(4, 7, "a")])
    >>> report["arl0"], report["delay"], report["detected"]
    (5.0, 1.0, 1.0)
    """
    alarms = np.asarray(alarms)
    if not np.isin(alarms, (0, 1)).all():
        raise ValueError("`alarms` must be true or false; of a detector's answers give predict(X) == -1.")
    alarms = alarms.astype(bool)
    nominal = np.ones(len(alarms), dtype=bool)
    delays, starts = [], []
    for first, stop, *_ in faults:
        nominal[first:stop] = False
        inside = np.flatnonzero(alarms[first:stop])
        if len(inside):
            delays.append(inside[0])
            starts.append(first)
    false = int((alarms & nominal).sum())
    delay = _mean(delays)
    return {
        "arl0": float(nominal.sum() / false) if false else np.inf,
        "wait": _mean_wait(alarms, nominal),
        "detected": len(delays) / len(faults) if faults else np.nan,
        "delay": delay,
        "arl1": delay + 1,
        "gap": float(np.diff(starts, prepend=0).mean()) if starts else np.nan,
    }


def _scores(right, n_named, n_true):
    """Precision and recall of names, and their harmonic mean."""
    precision, recall = right / max(n_named, 1), right / max(n_true, 1)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}


def _mean(delays):
    return float(np.mean(delays)) if delays else np.nan


def _mean_wait(alarms, nominal):
    """Mean steps from every nominal step to the next alarm or the end of its nominal segment."""
    rows = np.arange(len(alarms))
    ends = np.where(nominal, np.where(alarms, rows + 1, len(alarms)), rows)  # of a wait, as this row alone says
    waits = np.minimum.accumulate(ends[::-1])[::-1] - rows
    return float(waits[nominal].mean()) if nominal.any() else np.nan
