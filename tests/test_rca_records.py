"""The detector on benchmark records: Tennessee Eastman process, a water network, a laboratory rig."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import load_batadal, load_tep

FOLDER = Path(os.environ.get("SKFEDCAUSAL_DATA", "missing"))
SINGLE_UNIT = (1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18)
NEARLY_INVISIBLE = {3, 9, 15}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (FOLDER / "tep").is_dir(), reason="set SKFEDCAUSAL_DATA to the folder of records"),
]


def fitted(data, lengths):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # constant columns, short nominal records
        return FederatedRCADetector().fit(data, lengths=lengths)


@pytest.fixture(scope="module")
def tep():
    nominal = load_tep(FOLDER / "tep", ["d00", "d00_te"])
    return fitted(nominal.data, nominal.lengths)


@pytest.mark.filterwarnings("ignore:.* is silent since")  # faults 6 and 18 shut the simulated plant down
def test_tep_roots(tep):
    """8 of the 12 single-unit faults right among decided answers; the invisible ones are not guessed."""
    right, wrong = set(), set()
    for fault in SINGLE_UNIT:
        record = load_tep(FOLDER / "tep", [f"d{fault:02d}_te"])
        onset = int(np.flatnonzero(record.target != "")[0])
        found = tep.incidents(record.data).query("detected >= @onset")
        root = "" if found.empty else found.root.iloc[0]
        if root not in {"", "undecided"}:
            (right if root == record.target[onset] else wrong).add(fault)
    assert len(right) >= 8
    assert not (right | wrong) & NEARLY_INVISIBLE
    assert wrong <= {10}  # enters with a stream whose temperature only the stripper measures


def test_batadal_zones():
    """All attacks are attributed to their zone, with no more false alarms than were asked for.

    By the first incident that goes on during an attack; two are noticed an hour before their labels begin.
    """
    nominal, attacked = (load_batadal(FOLDER / "batadal", s) for s in ("train_normal", "train_attacks"))
    found = fitted(nominal.data, nominal.lengths).incidents(attacked.data)
    free, right, answering = np.ones(len(attacked.data), dtype=bool), 0, set()
    for attack in attacked.attacks.to_dict("records"):
        inside = found[~(found.end < attack["start"]) & (found.detected <= attack["end"])]
        right += bool(len(inside)) and inside.root.iloc[0] == attack["root_zone"]
        answering.update(inside.index)
        first, last = attacked.data.index.searchsorted([attack["start"], attack["end"]])
        free[first : last + 61] = False
    positions = attacked.data.index.get_indexer(found.drop(index=list(answering)).detected)
    assert free[positions].sum() <= stats.poisson.ppf(0.975, 1e-3 * free.sum())
    assert right >= 6
    if right == 6:
        pytest.xfail("an attack on zone 1 is named zone 3 since what lasts counts as well; published as 6 of 7")


def test_tep_false_alarms_on_rows_before_the_faults(tep):
    count = 0
    for fault in SINGLE_UNIT:
        record = load_tep(FOLDER / "tep", [f"d{fault:02d}_te"])
        onset = int(np.flatnonzero(record.target != "")[0])
        count += (tep.incidents(record.data.iloc[:onset]).detected >= 0).sum()
    assert count <= stats.poisson.ppf(0.975, 1e-3 * 160 * len(SINGLE_UNIT))
