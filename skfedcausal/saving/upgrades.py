"""Files of earlier versions: what is done to their states and documents so that this version reads them.

Who gives a class another state, so that one of an earlier version would no longer do, adds a function here that makes
the new state of the old one. Attributes that are added with a default of their class need none.
"""

from collections.abc import Callable

from ..server.watching.operating import Drifting
from ..statespace.segments import Change

SCHEMA = 1  # of the document
OLDER: dict[int, Callable[[dict], dict]] = {}  # makes a document of schema k + 1 of one of schema k
# by the name of a class in files: the k-th function makes the state of form k + 1 of one of form k
UPGRADES: dict[str, tuple[Callable[[dict], dict], ...]] = {
    "EvidenceOfRows": (
        lambda state: state | {"states": state["predicted"] + state["errors"]},
        lambda state: state | {"unsure": 0.0 * state["surprise"]},  # of no curves
    ),
    "Followed": (lambda state: state | {"count": 0, "sums": (0.0,) * 5, "before": None},),  # the block begins anew
    "OperatingPoint": (lambda state: state | {"steps": tuple(Change(step, step + 1) for step in state["steps"])},),
    "RootCauseServer": (
        lambda state: state | {"outside_dims": state["_outside_dims"], "share": 0.5},
        lambda state: state | {"is_long": state["share"] == 0.5},
    ),
    "StreamState": (lambda state: {"drifting": Drifting()} | state,),
    "WatchedOperatingPoint": (lambda state: state | {"states": 0.0 * state["predicted"]},),
}
