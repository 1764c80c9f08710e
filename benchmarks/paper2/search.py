"""Which penalty and how many rounds give the paper's ratios of L_s and D."""

from ._setting import SETTING, clients, final, trained
from .scalability import PAPER_CLIENTS, PAPER_SENSORS

TITLE = "Second paper, Tables 1 and 2: the ratio of L_s and D"
TEXT = SETTING + (
    " Every xi in {xi}, at the limit and after {rounds} rounds, plants {plants}; the grid was fixed before it was run."
)
RANGES, PAPER = "Ratio L_s / D, ranges over plants", "The paper's ratios"
NOTES = {
    RANGES: "L_s holds xi D, so the ratio is never below xi. The residual is about as large as D, on the "
    "way and at the limit, so the ratio is near xi + 1. No single xi gives the paper's 225 to 310 and its "
    "41 to 57: its Table 1 would need five times the weight of its Table 2.",
}


def ratio(s, X, inputs, truth, **settings):
    """L_s over D, and the residual over D."""
    est = trained(s, X, inputs, truth, **settings)
    return final(est, "L_s") / final(est, "penalty"), final(est, "server") / final(est, "penalty")


def figures(s):
    """Sections of the page."""
    sizes = {f"M = 2, D = {d}": (2, d) for d in s["sensors"]} | {
        f"M = {m}, D = {s['n_sensors']}": (m, s["n_sensors"]) for m in s["clients"]
    }
    rows = []
    for xi in s["xi"]:
        for after in ["the limit", *s["rounds"]]:
            for size, (n_units, n_sensors) in sizes.items():
                if after != "the limit" and n_sensors != s["n_sensors"]:
                    continue
                found = []
                for seed in s["plants"]:
                    record = clients(s, n_units, n_sensors=n_sensors, seed=seed)
                    end = {"solve": "stationary"} if after == "the limit" else {"max_iter": after}
                    found.append(ratio(s, *record, xi=xi, **end))
                least, most = (bound(one[0] for one in found) for bound in (min, max))
                row = {
                    "": size,
                    "xi": f"xi = {xi:g}",
                    "at": f"{after} rounds" if isinstance(after, int) else after,
                }
                row |= {"least L_s / D": least, "largest L_s / D": most}
                rows.append(row | {"largest residual / D": max(one[1] for one in found)})
    told = {f"Table 1, D = {k}": v for k, v in PAPER_SENSORS.items()}
    told |= {f"Table 2, M = {k}": v for k, v in PAPER_CLIENTS.items()}
    return {PAPER: [{"": name, "L_s / D": L / D} for name, (L, D) in told.items()], RANGES: rows}
