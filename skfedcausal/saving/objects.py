"""Objects in a file: classes by the names that they have there, and what is done to those of earlier versions."""

import tomllib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from .._version import __version__
from ..bases import VERSION_KEY, Versioned
from ..privacy import PrivacyAccountant, PrivacyMechanism
from ..server.links.curves import with_slopes
from ..server.watching.operating import Drifting
from ..statespace.segments import Change
from .archive import ModelFileError
from .nodes import Kind

# Files of earlier versions: what is done to their states and documents so that this version reads them.
#
# Who gives a class another state, so that one of an earlier version would no longer do, adds a function here that makes
# the new state of the old one. Attributes that are added with a default of their class need none.

SCHEMA = 1  # of the document
OLDER: dict[int, Callable[[dict], dict]] = {}  # makes a document of schema k + 1 of one of schema k
# by the name of a class in files: the k-th function makes the state of form k + 1 of one of form k
UPGRADES: dict[str, tuple[Callable[[dict], dict], ...]] = {
    "EvidenceOfRows": (
        lambda state: state | {"states": state["predicted"] + state["errors"]},
        lambda state: state | {"unsure": 0.0 * state["surprise"]},  # of no curves
        lambda state: {name: value for name, value in state.items() if name != "mode"},
    ),
    "Followed": (lambda state: state | {"count": 0, "sums": (0.0,) * 5, "before": None},),  # the block begins anew
    "OperatingPoint": (lambda state: state | {"steps": tuple(Change(step, step + 1) for step in state["steps"])},),
    "RootCauseServer": (
        lambda state: state | {"outside_dims": state["_outside_dims"], "share": 0.5},
        lambda state: state | {"is_long": state["share"] == 0.5},
    ),
    "StreamState": (lambda state: {"drifting": Drifting()} | state,),
    "Verdicts": (lambda state: state | {"shapes": with_slopes(state.get("shapes"))},),
    "WatchedOperatingPoint": (lambda state: state | {"states": 0.0 * state["predicted"]},),
}


GONE = ("OnsetRule", "WatchedModes")  # classes that only earlier versions have: who holds such an object drops it


class Gone:
    """Stands for an object of such a class while a file is read."""


# Objects in a file: classes by the names that they have there, whose state is a dict.

_SKLEARN = ("compose", "cross_decomposition", "dummy", "feature_selection", "gaussian_process",
            "gaussian_process.kernels", "isotonic", "kernel_approximation", "kernel_ridge", "linear_model",
            "neural_network", "pipeline", "preprocessing")  # fmt: skip


@cache
def places():
    """Where the classes are that may stand in a file, by their names there.

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> from skfedcausal.saving.objects import places
    >>> places()["KalmanClient"]
    'skfedcausal.client.kalman.KalmanClient'
    """
    return tomllib.loads((Path(__file__).parent / "classes.toml").read_text(encoding="utf-8"))


@cache
def _names():
    return {place: name for name, place in places().items()}


def name_of(kind):
    """Name that a class has in files, None if it may not stand in one."""
    known = _names().get(f"{kind.__module__}.{kind.__qualname__}")
    if known is not None or not kind.__module__.startswith("sklearn."):
        return known
    package = next((one for one in _SKLEARN if _of_sklearn(one, kind.__name__) is kind), None)
    return None if package is None else f"sklearn.{package}.{kind.__name__}"


@cache
def class_of(name):
    """Class that has a name in files."""
    package, _, own = name.removeprefix("sklearn.").rpartition(".")
    if name in places():
        module, _, own = places()[name].rpartition(".")
        return getattr(import_module(module), own)
    if name in GONE:
        return Gone
    found = _of_sklearn(package, own) if name.startswith("sklearn.") and package in _SKLEARN else None
    if found is None:
        raise ModelFileError(
            f"it holds a {name!r}, which this version does not know; a class or function of your own is named in "
            "load(path, own={...})"
        )
    return found


def _of_sklearn(package, name):
    """Public class of a package of scikit-learn, or None."""
    found = None if name.startswith("_") else getattr(import_module(f"sklearn.{package}"), name, None)
    return found if isinstance(found, type) and found.__module__.startswith("sklearn.") else None


def why_not(value):
    """Why a value that has no kind cannot stand in a file, and what to do."""
    if isinstance(value, (PrivacyMechanism, PrivacyAccountant)):
        return (
            f"a {type(value).__name__}, and no copy may have its account, which would lose charges; detach it first: "
            "est.set_params(privacy=None)."
        )
    if callable(value) and hasattr(value, "__name__"):
        what = "class" if isinstance(value, type) else "function"
        return (
            f"the {what} {value.__qualname__!r}, and a model file holds no code; give it a name in own={{...}} of "
            "`save` and `load`."
        )
    kind = type(value)
    return (
        f"a {kind.__module__}.{kind.__qualname__}, which no model file holds; where the class is yours, give it a name "
        "in own={...} of `save` and `load`."
    )


class ObjectKinds:
    """Kinds of nodes for objects of the library and scikit-learn, and what the user names: `own`, by name."""

    def __init__(self, own, versions=None):
        self._own = dict(own or {})
        self.versions = {} if versions is None else versions  # of the states of classes, by the names of these
        self._names_of_own = {id(one): name for name, one in self._own.items()}
        self.kinds = (
            Kind("object", self._state, self._made, self._fill),
            Kind("record", self._fields, self._record),
            Kind("own", self._own_name, self._own_of),
            Kind("ufunc", lambda value, writer: {"name": value.__name__}, _ufunc_of),
        )

    def kind_of(self, value):
        """Kind of a value that has no other, or None."""
        if id(value) in self._names_of_own:
            return self.kinds[2]
        if isinstance(value, np.ufunc) and getattr(np, value.__name__, None) is value:
            return self.kinds[3]
        if isinstance(value, type) or self._name_of(type(value)) is None:
            return None
        return self.kinds[1 if isinstance(value, tuple) else 0]

    def _name_of(self, kind):
        own = self._names_of_own.get(id(kind))
        return name_of(kind) if own is None else f"own.{own}"

    def _class_of(self, name):
        return self._given(name.removeprefix("own.")) if name.startswith("own.") else class_of(name)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _state(self, value, writer):
        state = value.__getstate__()
        if isinstance(state, tuple):  # of a class with slots
            state = {**(state[0] or {}), **state[1]}
        if not isinstance(state, dict):
            writer.refuse(why_not(value))
        state.pop(VERSION_KEY, None)  # the document has it
        return self._named(type(value), state, writer)

    def _fields(self, value, writer):
        return self._named(type(value), dict(zip(value.__match_args__, value, strict=True)), writer)

    def _named(self, kind, state, writer):
        name = self._name_of(kind)
        if UPGRADES.get(name):
            self.versions[name] = len(UPGRADES[name])
        return {"class": name, "state": {key: writer.value(value, f".{key}") for key, value in state.items()}}

    def _own_name(self, value, writer):
        return {"name": self._names_of_own[id(value)]}

    # -- reading -------------------------------------------------------------------------------------------------------

    def _made(self, node, reader):
        kind = self._class_of(node["class"])
        if issubclass(kind, tuple):
            raise ValueError(f"a {kind.__name__} stands where none may")
        return kind.__new__(kind)

    def _fill(self, made, node, reader):
        state = self._upgraded(node, reader)
        if isinstance(made, Versioned):
            state[VERSION_KEY] = __version__  # as it is now
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        elif hasattr(made, "__dict__"):
            vars(made).update(state)
        else:
            for name, value in state.items():
                object.__setattr__(made, name, value)

    def _record(self, node, reader):
        kind = self._class_of(node["class"])
        if not issubclass(kind, tuple):
            raise ValueError(f"a {kind.__name__} stands where none may")
        return kind(**self._upgraded(node, reader))

    def _upgraded(self, node, reader):
        """State of an object as this version has it."""
        name, found = node["class"], {key: reader.value(value) for key, value in node["state"].items()}
        state = {key: value for key, value in found.items() if not isinstance(value, Gone)}
        steps, version = UPGRADES.get(name, ()), self.versions.get(name, 0)
        if version > len(steps):
            raise ModelFileError(
                f"it holds a {name} in form {version}, and this version reads forms up to {len(steps)}"
            )
        for step in steps[version:]:
            state = step(state)
        return state

    def _own_of(self, node, reader):
        return self._given(node["name"])

    def _given(self, name):
        if name not in self._own:
            raise ModelFileError(f"it holds your own {name!r}; name it in load(path, own={{{name!r}: ...}})")
        return self._own[name]


def _ufunc_of(node, reader):
    found = getattr(np, node["name"], None)
    if not isinstance(found, np.ufunc):
        raise ValueError(f"numpy has no function {node['name']!r} of single numbers")
    return found
