"""A small plant, and watches of it that a test feeds by hand."""

import functools
import time
import warnings
from copy import deepcopy

import numpy as np
import pandas as pd

from skfedcausal import FederatedRCADetector, load
from skfedcausal.commands.watching.loop import Journal, Watch
from skfedcausal.commands.watching.settings import Plant
from skfedcausal.datasets import make_granger_plant

FAULT = 150


class Asked:
    """What a watch needs of its settings."""

    tz = None


@functools.cache
def plant(n_rows=400, period="min"):
    """A fitted detector, its plant, and live rows with a fault of unit0 from row 150 on."""
    X, _ = make_granger_plant(3, n_sensors=4, n_samples=1500 + n_rows, random_state=3)
    frame = pd.concat({name: pd.DataFrame(np.asarray(part)) for name, part in X.items()}, axis=1)
    frame.columns = [f"{unit}__x{k}" for unit, k in frame.columns]
    frame.index = pd.date_range("2026-01-01", periods=len(frame), freq=period)
    live = frame[1500:].copy()
    live.iloc[FAULT : FAULT + 60, 0:3] += 8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = FederatedRCADetector(false_alarm_rate=1e-3).fit(frame[:1500])
    return detector, Plant(frame[:1500], None, {}, (), ()), live


def watch_of(folder, tellers, **about):
    """A watch with its state in a folder: a new one, or the one that was there."""
    detector, known, _ = plant(**about)
    journal = Journal(folder)
    kept = journal.read()
    watch = Watch(deepcopy(detector) if kept is None else load(kept[1]), known, Asked(), journal, tellers, "")
    if kept is not None:
        watch.take_up(kept[0], kept[2])
    watch.keep()
    return watch


def until(condition, patience=10.0):
    """Wait for something to hold; whether it does."""
    end = time.monotonic() + patience
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()
