"""Run lengths of alarms that are raised or not at every step."""

import numpy as np


def alarm_report(alarms, faults):
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
    delay = float(np.mean(delays)) if delays else np.nan
    return {
        "arl0": float(nominal.sum() / false) if false else np.inf,
        "wait": _mean_wait(alarms, nominal),
        "detected": len(delays) / len(faults) if faults else np.nan,
        "delay": delay,
        "arl1": delay + 1,
        "gap": float(np.diff(starts, prepend=0).mean()) if starts else np.nan,
    }


def _mean_wait(alarms, nominal):
    """Mean steps from every nominal step to the next alarm or the end of its nominal segment."""
    waits = np.zeros(len(alarms))
    ahead = 0
    for t in range(len(alarms) - 1, -1, -1):
        ahead = 0 if not nominal[t] else 1 if alarms[t] else ahead + 1
        waits[t] = ahead
    return float(waits[nominal].mean()) if nominal.any() else np.nan
