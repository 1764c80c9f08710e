"""False and true links in ordinary situations: tests alone, after the report, with its remedies, beside a VAR."""

import numpy as np

from skfedcausal import FederatedGrangerEstimator, KalmanClient

from .._rivals import LEVEL, Autoregression, components, holm
from .._situations import FURTHER, SITUATIONS, draw

TITLE = "Ordinary situations: false and true links"
TEXT = (
    "Four units of two states behind six sensors, {n_samples} rows, u0 acts on u1 unless the situation says otherwise"
    " (`benchmarks/_situations.py`); {records} records of each ({slow_records} where fits are slow), seeds from "
    "{first} on. False: share of records in which an absent pair is told a link; true: share of true links told. "
    'Tests: adjusted p-value of at most 0.05, whatever the report says; told: verdict "influence"; remedies: with '
    '`remedy="auto"`. VAR: order by AIC on the first two components of every unit, Wald tests, Holm\'s rule. Limit: '
    "what is told is false in at most 0.05 of the records, and true links are told where a linear plant with that "
    "record could tell them."
)
# where one record cannot say whether a verdict is right, and why
NOT_TOLD = {
    "hidden white driver, one row apart": "a driver without memory, seen by one unit a row later, leaves exactly what "
    "a link leaves",
    "clock of the cause two rows late": "with the clock off by more than the link takes, the effect comes first in "
    "every statistic",
    "controller reads a noisy sensor": "in the same row the controller answers what it reads, noise included",
    "two operating modes": "dynamics that switch for all units together leave traces of links and of drivers; a column "
    "that tells the modes (`mode=`) does",
}
ALL = "all that one record can tell"
SECTION = "Shares of records (false) and of links (true)"
NOTES = {
    SECTION: "Left out of the first row, as no record tells: "
    + "; ".join(f"*{name}* ({why})" for name, why in NOT_TOLD.items())
    + "."
}
WAYS = ("tests", "told", "told, remedies", "VAR")


def judged(scene):
    """By way: whether a false link is told, and of every true link whether it is."""
    settings = {"client": KalmanClient(n_states=scene.n_states)}
    remedied = FederatedGrangerEstimator(**settings, remedy="auto").fit(scene.X)
    # a report without a remedy leaves the plain fit
    plain = FederatedGrangerEstimator(**settings).fit(scene.X) if remedied.remedies_ else remedied
    links, after = plain.links_, remedied.links_
    names = list(scene.X)
    ours = {
        "tests": pairs(links, links["p_adjusted"] <= LEVEL),
        "told": pairs(links, links["verdict"] == "influence"),
        "told, remedies": pairs(after, after["verdict"] == "influence"),
    }
    effects, causes = np.nonzero(holm(Autoregression(components(scene.X, 2)[0], most_lags=5).p_values()))
    told = ours | {"VAR": {(names[c], names[e]) for e, c in zip(effects, causes, strict=True)}}
    return {
        way: (bool(told[way] - scene.links - scene.doubtful), [pair in told[way] for pair in sorted(scene.links)])
        for way in WAYS
    }


def pairs(links, chosen):
    """Pairs (cause, effect) of the chosen rows."""
    return set(zip(links["cause"][chosen], links["effect"][chosen], strict=True))


def row(name, records):
    """A row of the table: shares of records and of true links."""
    false = {f"false: {way}": np.mean([record[way][0] for record in records]) for way in WAYS}
    found = {f"true: {way}": [x for record in records for x in record[way][1]] for way in WAYS}
    true = {column: np.mean(values) if values else None for column, values in found.items()}
    return {"situation": name, "records": len(records)} | false | true


def records_of(name, s):
    """What is said of every record of a situation."""
    n_records = s["slow_records"] if name in s["slow"] else s["records"]
    for seed in range(s["first"], s["first"] + n_records):
        yield judged(draw(name, seed, s["n_samples"]))


def figures(s):
    """All situations together, and each."""
    names = s.get("situations", [*SITUATIONS, *FURTHER])
    found = {name: list(records_of(name, s)) for name in names}
    told = [record for name, records in found.items() if name not in NOT_TOLD for record in records]
    return {SECTION: [row(ALL, told), *(row(name, records) for name, records in found.items())]}
