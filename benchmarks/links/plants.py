"""Links of water, power and river networks and of a steam plant: what is told, beside a VAR and PCMCI."""

from importlib.util import find_spec
from time import process_time

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from skfedcausal import FederatedGrangerEstimator

from .._records import folder_of, no_records
from .._rivals import LEVEL, Autoregression, holm, pcmci

TITLE = "Links of networks of plants"
TEXT = (
    "Records of simulators that were not made for this library: water networks (EPANET: ky4, net3, net6), rivers "
    "(rain, reservoirs and routing down a tree), a steam plant under control, power grids (IEEE 39, NPCC); as they "
    "would come, with times and without settings. Pairs are true where a push of the cause in the simulator moves the"
    " effect within two rows by at least {true} standard deviations of a row's news (rivers: downstream; steam: the "
    "plant's couplings), absent up to {absent}, and not judged between. Shares of true and of absent pairs that are "
    "told a link; their difference; AUROC of the ranking by evidence (tests, VAR: p-value; PCMCI: size); share of "
    "true ones among the true and absent pairs that are told; processor seconds over the VAR's. The default tells the "
    'verdicts "influence" and "coupled"; then "influence" alone; then its tests alone, `p_adjusted` at 5 %. VAR: order '
    "by AIC of all columns, Wald tests, Holm's rule. PCMCI: three lags, Holm's rule, records of at most "
    "{most_columns} columns. The limit is all true pairs and no absent one."
)
OURS, SURE = "skfedcausal, default", "skfedcausal, influence alone"
TESTS = "skfedcausal, tests alone"
VAR, PCMCI = "VAR(AIC) of all columns, Wald (statsmodels)", "PCMCI of all columns (tigramite)"
_MOST_LAGS, _PCMCI_LAGS = 8, 3


def missing(s):
    """Why the records cannot be read."""
    return no_records(["networks"])


def read(name):
    """A record as a frame with times, its units, and what every unit's push moves, [effect, cause]."""
    with np.load(folder_of() / "networks" / f"{name}.npz") as file:
        index = pd.date_range("2024-01-01", periods=len(file["X"]), freq=pd.Timedelta(minutes=float(file["minutes"])))
        X = pd.DataFrame(file["X"].astype(float), index, [str(name) for name in file["cols"]])
        units, moved = [str(unit) for unit in file["units"]], file["E"]
    seen = [k for k, unit in enumerate(units) if any(of_unit(column) == unit for column in X)]
    return X, [units[k] for k in seen], moved[np.ix_(seen, seen)]


def of_unit(column):
    """Unit of a column."""
    return column.split("__")[0]


def by_default(X, units):
    """Scores and decisions [effect, cause] of the default fit: the verdict, influence alone, tests alone."""
    links, n = FederatedGrangerEstimator().fit(X).links_, len(units)
    p, size, evidence = np.ones((n, n)), np.zeros((n, n)), np.zeros((n, n))
    told, sure, tested = np.zeros((3, n, n), dtype=bool)
    for link in links.itertuples():
        at = units.index(link.effect), units.index(link.cause)
        p[at], size[at] = link.p_value, link.statistic
        evidence[at], sure[at] = link.evidence, link.verdict == "influence"
        told[at], tested[at] = link.verdict in ("influence", "coupled"), link.p_adjusted <= LEVEL
    return {OURS: (evidence, told), SURE: (evidence, sure), TESTS: (ranks(p, size), tested)}


def by_var(X, units):
    """The same of an autoregression of all columns."""
    p, size = Autoregression(series_of(X, units), most_lags=_MOST_LAGS).tests()
    return {VAR: (ranks(p, size), holm(p))}


def ranks(p, size):
    """Ranks of pairs by p-value, the surest highest; by the statistic where p-values are zero to the computer."""
    out = np.empty(p.size)
    out[np.lexsort((size.ravel(), -p.ravel()))] = np.arange(p.size)
    return out.reshape(p.shape)


def by_pcmci(X, units):
    """The same of PCMCI."""
    p, size = pcmci(series_of(X, units), _PCMCI_LAGS, most_conditions=6)
    return {PCMCI: (size, holm(p))}


def series_of(X, units):
    """Standardised columns of every unit."""
    Z = (X - X.mean()) / X.std()
    return [Z[[column for column in X if of_unit(column) == unit]].to_numpy() for unit in units]


def timed(method, *given):
    """Answers of a method and its processor seconds."""
    begin = process_time()
    return method(*given), process_time() - begin


def judged(name, s):
    """Row of every method on a record."""
    X, units, moved = read(name)
    off = ~np.eye(len(units), dtype=bool)
    true, absent = (off & (moved >= s["true"]), off & (moved <= s["absent"]))
    answers, seconds = {}, {}
    usual = min(timed(by_var, X, units)[1] for _ in range(3))
    methods = [by_default, by_var]
    if s["packages"] and find_spec("tigramite") and X.shape[1] <= s["most_columns"]:
        methods.append(by_pcmci)
    for method in methods:
        found, taken = timed(method, X, units)
        answers |= found
        seconds |= dict.fromkeys(found, usual if method is by_var else taken)
    judged = true | absent
    for method, (score, told) in answers.items():
        shares = told[true].mean(), told[absent].mean() if absent.any() else None
        yield {
            "record": name,
            "method": method,
            "records": 1,
            "true pairs": int(true.sum()),
            "absent pairs": int(absent.sum()),
            "true told": shares[0],
            "absent told": shares[1],
            "difference": shares[0] - shares[1] if absent.any() else None,
            "right among told": true[told & judged].mean() if (told & judged).any() and absent.any() else None,
            "AUROC": roc_auc_score(true[judged], score[judged]) if absent.any() else None,
            "CPU / VAR": seconds[method] / usual,
        }


def together(rows):
    """Means over records, of records with absent pairs where these are needed, by method."""
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        out = {"record": "mean", "method": method, "records": len(own)}
        for column in own[0]:
            values = [row[column] for row in own if row[column] is not None]
            if column not in out and values:
                out[column] = int(sum(values)) if "pairs" in column else np.mean(values)
        yield out


def figures(s):
    """Means over records, then every record."""
    rows = [row for name in s["records"] for row in judged(name, s)]
    return {"Links told": [*together(rows), *rows]}
