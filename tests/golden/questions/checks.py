"""Questions before a fit: the check of a record, and what a fit would send."""

import numpy as np

from skfedcausal import check_plant

from ..plants import Fitted, Plant, Record
from .common import counterfactual, detector, driven, gappy, granger, record, table_of


def _damaged():
    """Constant, frozen, copied and clipped tags, gaps, outliers and times that jump."""
    table = table_of(gappy(record(n_samples=900)), "2020-01-01")
    table["unit0__x1"] = 3.0
    table.loc[table.index[200:400], "unit0__x2"] = table["unit0__x2"].iloc[200]
    table["unit1__x3"] = table["unit1__x2"]
    table["unit1__x4"] = table["unit1__x4"].clip(upper=0.5)
    table.loc[table.index[500], "unit2__x0"] = 1e4
    table.loc[table.index[450:], "unit2__x1"] += 20.0
    return Record(table)


class _Unfitted(Plant):
    """A plant that is only asked what a fit would be like."""

    def fitted_here(self, estimator, record):
        return Fitted(estimator, record.given(), record)


_CHECKED = {
    "check_plant": lambda fitted: check_plant(fitted.record.X),
    "plan": lambda fitted: fitted.estimator.plan(**fitted.given),
    "dry run": lambda fitted: fitted.estimator.plan(**fitted.given),
}


def _held():
    """A tank whose level hardly moves, and a unit that is an exact copy of another one."""
    found = record(n_samples=600)
    found.X["unit2"] = np.round(found.X["unit2"], 0)
    return found


PLANTS = [
    _Unfitted("before a fit", granger, record, _CHECKED),
    _Unfitted(
        "before a fit with inputs", counterfactual, driven, {name: _CHECKED[name] for name in ("plan", "dry run")}
    ),
    _Unfitted("before a watch", detector, record, {name: _CHECKED[name] for name in ("plan", "dry run")}),
    _Unfitted("a damaged record", granger, _damaged, {"check_plant": _CHECKED["check_plant"]}),
    _Unfitted("a coarse record", granger, _held, {"check_plant": _CHECKED["check_plant"]}),
]
