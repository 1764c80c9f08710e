"""Plants under control whose set points move: effects of other moves, beside VARX by AIC and "nothing happens"."""

import numpy as np
import pandas as pd

from skfedcausal import FederatedCounterfactualEstimator, InputModel
from skfedcausal.estimators.relays import learned_relay

from .._records import folder_of, no_records
from .._rivals import varx

TITLE = "Set points of plants under control"
TEXT = (
    "Simulated plants whose set points or pumps are moved at random: the Tennessee Eastman process (tep), a boiler "
    "with its turbine (steam), a water network with tanks (water), and units of the library's own class (own). "
    "Questions are other moves in records that were not learned from, at most {n_questions} a plant; the truth is the "
    "simulator run again with the same noise. Error: rms of the difference to the true effect over the rms of that, "
    "tags in standard deviations, at most {most}, mean over the questions; 'nothing happens' has 1, the limit is 0. "
    "Band holds: share of 90 % bands that hold the truth (should be 0.90); off zero: share of bands that exclude "
    "zero, which is how much is said; wrong side: share of bands that lie on the wrong side of zero. Default "
    "settings, first {n_rows} rows with their times; VARX by AIC sees the pooled table, with inputs from their own row "
    "on. With its relay: the user names the level that switches a pump and the flow that shows it, and `learned_relay` "
    "finds the rest in the record; not in the mean. One record a plant: differences of 0.02 are noise, 0.2 for tep, "
    "whose fit hangs on the last digits."
)


def missing(settings):
    """Why the table cannot be made here."""
    return no_records(["effects"])


class Questions:
    """A record to learn from, factual records, inputs that are asked about and their true effects."""

    def __init__(self, name, s):
        told = np.load(folder_of() / "effects" / f"{name}.npz")
        units = {"steam": lambda tag: tag.replace(".", "__", 1)}.get(name.split("_")[0], str)
        self.outputs, self.inputs = ([units(str(tag)) for tag in told[part]] for part in ("cols", "inputs"))
        self.rows_of_a_day = int(told["day"])
        self.factual = self._measured(told, "x0"), told["u0"].astype(float)
        self.record = self._table(self._measured(told, "X"), told["U"].astype(float)).iloc[: s["n_rows"]]
        self.scale, self.start = self.record[self.outputs].std().to_numpy(), int(told["start"])
        chosen = self._asked(told, s["n_questions"])
        self.asked = [(int(told["rec"][q]), told["u1"][q].astype(float)) for q in chosen]
        self.truths = [told["effect"][q] / 200 * told["sd"] for q in chosen]

    @staticmethod
    def _measured(told, part):
        return told[part].astype(float) / told["k"] * told["sd"] + told["mu"]

    def _asked(self, told, n_questions):
        """Questions that move something, spread over all of them."""
        scaled = told["effect"][:, int(told["start"]) :] / 200 * told["sd"] / self.scale
        moving = np.flatnonzero(np.sqrt((scaled**2).mean(axis=(1, 2))) >= 0.05)
        return moving[np.unique(np.linspace(0, len(moving) - 1, n_questions).astype(int))]

    def _table(self, Y, U):
        table = pd.DataFrame(np.hstack([Y, U]), columns=self.outputs + self.inputs)
        if self.rows_of_a_day:
            every = pd.Timedelta(days=1) / self.rows_of_a_day
            table.index = pd.date_range("2024-01-01", periods=len(table), freq=every)
        order = list(dict.fromkeys(name.split("__")[0] for name in table))
        return table[sorted(table, key=lambda name: order.index(name.split("__")[0]))]

    def tables(self):
        """Factual record and inputs of every question."""
        for record, inputs in self.asked:
            yield self._table(*(part[record] for part in self.factual)), inputs


def by_library(questions, relay=None):
    """Effect and band of every question by the default estimator, which may be told level and flow of a relay."""
    inputs, known, relays = questions.inputs, questions.record, {}
    if relay is not None:
        level, flow = relay
        own = [name for name in questions.outputs if name.split("__")[0] == level.split("__")[0]]
        pump = level.split("__")[0] + "__pump_of_level"
        relays, inputs = {pump: learned_relay(known[own + inputs], level, flow, inputs)}, [*inputs, pump]
        known = _with_status(known, relays)
    told = {"sampled": dict.fromkeys(inputs, "auto"), "input_model": InputModel(relays=relays)}
    estimator, out = FederatedCounterfactualEstimator(input_columns=inputs, **told).fit(known), []
    for table, asked in questions.tables():
        found = estimator.whatif(_with_status(table, relays), dict(zip(questions.inputs, asked.T, strict=True)))
        wide = {name: found.pivot(index="time", columns="column", values=name) for name in found.columns[2:]}
        effect, low, high, factual = (
            wide[part][questions.outputs].to_numpy() for part in ("effect", "low", "high", "factual")
        )
        out.append((effect, low - factual, high - factual))
    return out


def _with_status(table, relays):
    """A table with the status of relays behind the levels that switch them."""
    for pump, relay in relays.items():
        table = table.copy()
        table.insert(table.columns.get_loc(relay.level) + 1, pump, relay.status(table[relay.level]))
    return table


def by_autoregression(questions):
    """Effect of every question by VARX(AIC)."""
    Y, U = (questions.record[names].to_numpy(float) for names in (questions.outputs, questions.inputs))
    scale, input_scale = Y.std(axis=0), U.std(axis=0)
    before = np.ones(U.shape[1], dtype=bool)
    model = varx((Y - Y.mean(axis=0)) / scale, (U - U.mean(axis=0)) / input_scale, before)
    changes = (inputs - table[questions.inputs].to_numpy() for table, inputs in questions.tables())
    return [model.response(change / input_scale) * scale for change in changes]


def errors(questions, effects, most):
    """Error of every question."""
    out = []
    for effect, truth in zip(effects, questions.truths, strict=True):
        off, size = (np.sqrt(np.mean((x / questions.scale)[questions.start :] ** 2)) for x in (effect - truth, truth))
        out.append(min(off / size, most))
    return out


def bands(questions, found):
    """Shares of bands that hold the truth, exclude zero, and lie on the wrong side of it."""
    shares = []
    for (_, low, high), truth in zip(found, questions.truths, strict=True):
        low, high, truth = (x[questions.start + 1 :] for x in (low, high, truth))
        clear = 0.05 * questions.scale
        wrong = ((low > 0) & (truth < -clear)) | ((high < 0) & (truth > clear))
        shares.append([x.mean() for x in ((low <= truth) & (truth <= high), (low > 0) | (high < 0), wrong)])
    return dict(zip(("band holds", "off zero", "wrong side"), np.mean(shares, axis=0), strict=True))


def _row(plant, questions, rival, s, relay=None):
    found = by_library(questions, relay)
    ours = np.mean(errors(questions, [effect for effect, _, _ in found], s["most"]))
    return {"plant": plant, "skfedcausal": ours, "VARX(AIC)": rival, "nothing happens": 1.0} | bands(questions, found)


def figures(s):
    """A row of every plant, the mean of all, and plants that the library is told a relay of."""
    rows, told = [], []
    for name in s["records"]:
        questions = Questions(name, s)
        rival = np.mean(errors(questions, by_autoregression(questions), s["most"]))
        rows.append(_row(name, questions, rival, s))
        if name in s["relays"]:
            told.append(_row(f"{name}, with its relay", questions, rival, s, s["relays"][name]))
    mean = pd.DataFrame(rows).mean(numeric_only=True).to_dict()
    return {"Moved set points": [*rows, {"plant": "all plants", **mean}, *told]}
