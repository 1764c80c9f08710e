"""Known defects in simulated plants: what `check_plant` finds of them, and what that is not there.

Run ``python -m benchmarks.check_plant``.
"""

import argparse
import warnings
from collections import Counter

import numpy as np

from skfedcausal import FederatedGrangerEstimator, check_plant

from ._defects import DEFECTS, clean_plant, other_plant, units_of
from ._report import table, write

_SETTING = """\
Plants of {least} to {most} units in a chain of links; 1500, 3000 or 6000 rows; fast, medium or slow states
(spectral radius 0.2 to 0.97); sensor noise of 0.2 to 1 standard deviations of the process noise; tags as
measured, rounded to decimals or integers; in each unit a pump that is switched now and then or never and a
setpoint that is changed 0 to 15 times; 2 % of the cells missing in a third of the plants. One defect per
plant (`benchmarks/_defects.py`). A clock shift of 5 to 60 steps of any unit counts where the fit to the clean
record finds a link of that unit. Where two units differ and no third is tied to them, nothing tells whose
clock is off: the check says so at both, which counts as one finding."""

_OTHERS = """\
Plants of another make: 2 to 8 units of scalar or oscillating states (modulus up to 0.99) in a chain, a star
or a ring; 1 to 30 tags per unit; 1000 to 8000 rows of 1 s to 5 min, two fifths of them without times; sensor
noise of 2 to 100 % of the signal; a daily cycle in a fifth of the plants; two to twelve decimals."""


def examine(defect, seed, plant):
    """Whether the planted defect was found, what was found besides, and whether it could be found.

    The clock of a unit shows only in what ties it to others: clock shifts count where the fit to the clean
    record finds a link from or to the unit.
    """
    X, kinds = plant(seed)
    place = wanted = None
    tied = True
    if defect is not None:
        changed, (place, wanted) = DEFECTS[defect](np.random.default_rng([seed, 1]), X, kinds)
        if defect == "clock shift":
            tied = place in set(np.ravel(influences(X, kinds)))
        X = changed
    findings = check_plant(X).findings
    where = findings["column"].where(findings["column"] != "", findings["unit"])
    hits = (where == place) & findings["kind"].isin(wanted or ())
    found = bool(hits.any())
    if defect == "clock shift":  # the same difference, told at the other unit
        hits |= (findings["kind"] == "clock") & findings["detail"].str.endswith(f"against {place!r}")
    return found, Counter(findings.loc[~hits, "kind"]), X.shape[1], tied


def influences(X, kinds):
    """Links found between the units' measured tags, as (cause, effect)."""
    measured = X[[column for column, kind in kinds.items() if kind not in ("switch", "setpoint")]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        links = FederatedGrangerEstimator().fit(measured.reset_index(drop=True)).links_
    return links.loc[links["verdict"] == "influence", ["cause", "effect"]].to_numpy()


def rows_of(seeds, plant):
    """One row of the table per defect."""
    for defect in (None, *DEFECTS):
        answers = [examine(defect, seed, plant) for seed in seeds]
        counted = [answer for answer in answers if answer[3]]
        others = sum((answer[1] for answer in answers), Counter())
        found = sum(answer[0] for answer in counted)
        yield {
            "defect": defect or "none",
            "plants": len(answers),
            "of them could show": len(counted) if defect else "",
            "found": f"{found} ({found / len(counted):.1%})" if defect else "",
            "plants with other findings": sum(bool(answer[1]) for answer in answers),
            "other findings per 100 tags": f"{100 * sum(others.values()) / sum(a[2] for a in answers):.2f}",
            "what": ", ".join(f"{count} {kind}" for kind, count in others.items()),
        }


def consequences(seeds):
    """How often a shifted clock changes the links, and how often it was reported where it did."""
    changed = reported = 0
    for seed in seeds:
        X, kinds = clean_plant(seed)
        shifted, (place, _) = DEFECTS["clock shift"](np.random.default_rng([seed, 1]), X, kinds)
        before, after = ({tuple(pair) for pair in influences(part, kinds)} for part in (X.iloc[60:-60], shifted))
        if {pair for pair in before if place in pair} != {pair for pair in after if place in pair}:
            changed += 1
            findings = check_plant(shifted).findings
            reported += bool((findings["kind"] == "clock").any())
    return changed, reported


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="seeds below 1000 were used to build the check")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.plants)
    rows, others = (
        list(rows_of(seeds, clean_plant)),
        list(rows_of(seeds[: arguments.plants // 2], other_plant)),
    )
    few = seeds[: arguments.plants // 4]
    changed, reported = consequences(few)
    sizes = [len(units_of(clean_plant(seed)[0])) for seed in seeds]
    write(
        "check_plant",
        "Defects found by check_plant",
        _SETTING.format(least=min(sizes), most=max(sizes)),
        table(rows),
        f"Of {len(few)} plants with a shifted clock the links of that unit were other ones than in the "
        f"clean record in {changed}; in {reported} of those a clock offset was reported.",
        _OTHERS,
        table(others),
    )


if __name__ == "__main__":
    main()
