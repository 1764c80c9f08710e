"""What the assumption report does for verdicts: ordinary situations, before and after it, and with its remedies.

Run ``python -m benchmarks.validity``; ``--part 0/2 --save FILE`` does every second record of all situations, and
``--read FILES`` makes the table of what was saved. The user guide quotes it (page "Valid or silent").
"""

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from skfedcausal import FederatedGrangerEstimator, KalmanClient

from ._report import table, write
from ._situations import SITUATIONS, draw

_LEVEL = 0.05
ECHOES = (
    '"More than an echo" leaves the fainter way of a loop untold, where its p value is above 1e-5, in plants of '
    "several lags where noise is at most .02 of the scores of the cause of the surer one, and whatever lags and noise "
    "where the noise of the pair goes together within the row; that is so of true loops too."
)
# where one record cannot say whether a verdict is right, and why
NOT_TOLD = {
    "hidden white driver, one row apart": "a driver without memory, seen by one unit a row later, leaves exactly "
    "what a link leaves",
    "clock of the cause two rows late": "with the clock off by more than the link takes, the effect comes first in "
    "every statistic of the record",
    "controller reads a noisy sensor": "in the same row the controller answers what it reads, noise included: the "
    "measured unit passes its cause on faster than its own state shows it",
    "two operating modes": "dynamics that switch for all units together leave traces of links and of drivers "
    "between the switches; a column that tells the modes (`mode=`) does",
}


def judged(name, seed, remedy):
    """One record: false and true links before and after the report, and what failed."""
    scene = draw(name, seed)
    estimator = FederatedGrangerEstimator(KalmanClient(n_states=scene.n_states), remedy=remedy)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(scene.X)
    links, failed = estimator.links_, estimator.validity_.query("not passed")
    pairs = list(zip(links["cause"], links["effect"], strict=True))
    absent = np.array([pair not in scene.links and pair not in scene.doubtful for pair in pairs])
    present = np.array([pair in scene.links for pair in pairs])
    before, after = (links["p_adjusted"] <= _LEVEL).to_numpy(), (links["verdict"] == "influence").to_numpy()
    return {
        "before": bool((before & absent).any()),
        "after": bool((after & absent).any()),
        "found": float(before[present].mean()) if present.any() else None,
        "kept": float(after[present].mean()) if present.any() else None,
        "withheld": float((links["because"] != "").mean()),
        "failed": sorted(set(failed["check"])),
        "remedies": list(estimator.remedies_),
        "seconds": time.perf_counter() - start,
    }


def row(name, records):
    """A row of the table."""
    usual, remedies = (_usual([record[key] for record in records]) for key in ("failed", "remedies"))
    shares = {key: _share([r[key] for r in records]) for key in ("before", "after", "found", "kept", "withheld")}
    return {
        "situation": name,
        "records": len(records),
        "false, tests alone": shares["before"],
        "false, after the report": shares["after"],
        "true, tests alone": shares["found"],
        "true, after the report": shares["kept"],
        "withheld": shares["withheld"],
        "failed checks (share of records)": usual,
        "remedies (share of records)": remedies,
    }


def _usual(lists):
    """The most frequent words of lists, with the share of lists that have them."""
    counts = Counter(word for words in lists for word in words)
    return "; ".join(f"{word} {count / len(lists):.2f}" for word, count in counts.most_common(3))


def _share(values):
    values = [value for value in values if value is not None]
    return f"{np.mean(values):.2f}" if values else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first record")
    parser.add_argument("--part", default="0/1", help="which records: k/n takes every n-th from the k-th")
    parser.add_argument("--remedy", choices=["auto"], default=None)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--read", type=Path, nargs="*")
    asked = parser.parse_args()
    found: dict = {}
    for path in asked.read or []:
        for name, records in json.loads(path.read_text()).items():
            found.setdefault(name, []).extend(records)
    if not asked.read:
        k, n = map(int, asked.part.split("/"))
        for name in SITUATIONS:
            seeds = range(asked.first + k, asked.first + asked.records, n)
            found[name] = [judged(name, seed, asked.remedy) for seed in seeds]
            print(row(name, found[name]), flush=True)
            if asked.save:
                asked.save.write_text(json.dumps(found))
    if asked.save is None:
        _write(found, asked.remedy)


def _write(found, remedy):
    rows = [row(name, found[name]) for name in SITUATIONS if name in found]
    if remedy is None:
        rows = [{key: value for key, value in r.items() if "remedies" not in key} for r in rows]
    still = [r["situation"] for r in rows if float(r["false, after the report"]) > 0.08]
    told = [record["after"] for name, records in found.items() if name not in NOT_TOLD for record in records]
    write(
        "validity" if remedy is None else "validity_remedies",
        "Verdicts before and after the assumption report"
        if remedy is None
        else "Verdicts with the remedies of the report",
        "Four units of two states behind six sensors, 2000 rows, u0 acts on u1 unless the situation says otherwise "
        "(`benchmarks/_situations.py`). Shares of records in which some absent pair has an adjusted p value of at "
        'most 0.05 (tests alone), in which one still gets the verdict "influence" after the report; the same of true '
        "links; pairs whose verdict was withheld or is a shared driver; and the checks that failed most.",
        table(rows),
        "Above 0.08 after the report: " + (", ".join(still) if still else "none") + ". Over all records of the "
        f"situations that can be told: {np.sum(told)} of {len(told)} ({np.mean(told):.3f}).",
        ECHOES,
        "Not to be told from one record:\n\n" + "\n".join(f"- {name}: {why}." for name, why in NOT_TOLD.items()),
    )


if __name__ == "__main__":
    main()
