"""Save a fitted estimator and load it: documents with versions around the nodes."""

import copy
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import pandas as pd
import scipy
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator

from .._version import __version__
from ..arguments import check_kind, check_number, warn
from .archive import ModelFileError, read_archive, write_archive
from .kinds import PLAIN, TABLES
from .nodes import Reader, Writer
from .objects import OLDER, SCHEMA, ObjectKinds, why_not

_Saved = TypeVar("_Saved")
_FORMAT = "skfedcausal model"
_BASES = (np.generic, np.dtype, sparse.sparray, sparse.spmatrix)  # of kinds that hold for subclasses, too
_KINDS = PLAIN | TABLES


def save(
    estimator: Any, path: str | PathLike[str], *, own: Mapping[str, Any] | None = None, compress: bool = True
) -> None:
    """Save an estimator as a file of numbers and text, which this version and every later one reads.

    The file holds parameters, what `fit` learned with the models of the units, and of a detector the stream that it
    follows, which goes on after :func:`load` as if nothing had been in between. Every answer has the same bits as
    before. It holds no code, and no transport: give a new one after loading, by ``connect(transport)`` or
    ``set_params(communication__transport=...)``.

    Parameters
    ----------
    estimator : estimator
        One of the three federated estimators, fitted or not, or one of their parts.
    path : str or Path
        The file; it is written whole or not at all, and its owner alone reads it.
    own : dict of str to class or function, default=None
        Classes and functions of your own that the estimator has, such as a map of an extended Kalman filter. The file
        holds their names, and :func:`load` is to be given the same.
    compress : bool, default=True
        Whether the file is packed, which takes longer than all the rest. A watch, which saves its detector every
        minute, does without.

    Returns
    -------
    None

    Raises
    ------
    ModelFileError
        If the estimator holds something that cannot stand in a file, which is named by its path in the estimator: a
        function or a class that `own` does not name, or a privacy mechanism, whose account no copy may have; take
        that off by ``set_params(privacy=None)``.

    Warns
    -----
    UserWarning
        Of a transport that is left out.

    See Also
    --------
    load : The estimator of a file.

    Notes
    -----
    :ref:`Model files <model_files>` says what stands where in a file. A pickle holds code of the version that wrote it
    and is for that version only.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> import skfedcausal
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> est = skfedcausal.FederatedGrangerEstimator().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skfedcausal.save(est, f"{folder}/plant.skfc")
    ...     same = skfedcausal.load(f"{folder}/plant.skfc")
    >>> np.array_equal(same.predict(X), est.predict(X))
    True
    """
    _check_arguments(path, own)
    if not isinstance(estimator, BaseEstimator):
        raise ModelFileError(
            f"A model file holds an estimator, not a {type(estimator).__name__}; give save(est, path)."
        )
    if getattr(estimator, "transport", None) is not None:
        warn("The transport is not saved: give the loaded estimator one by set_params(communication__transport=...).")
        estimator = copy.copy(estimator).set_params(communication__transport=None)
    objects = ObjectKinds(own)
    writer = Writer(lambda value: _kind_of(value, objects), why_not)
    root = writer.value(estimator, type(estimator).__name__)
    document = {
        "format": _FORMAT,
        "schema": SCHEMA,
        "written_by": {one.__name__: one.__version__ for one in (np, pd, scipy, sklearn)}
        | {"skfedcausal": __version__},
        "forms": objects.versions,
        "root": root,
        "nodes": writer.nodes,
    }
    write_archive(path, document, writer.numbers, compress)


@overload
def load(
    path: str | PathLike[str], *, kind: type[_Saved], own: Mapping[str, Any] | None = None, max_bytes: int = 2**30
) -> _Saved: ...
@overload
def load(
    path: str | PathLike[str], *, kind: None = None, own: Mapping[str, Any] | None = None, max_bytes: int = 2**30
) -> Any: ...
def load(
    path: str | PathLike[str], *, kind: Any = None, own: Mapping[str, Any] | None = None, max_bytes: int = 2**30
) -> Any:
    """Load an estimator from a file that :func:`save` wrote, in this version or an earlier one.

    Nothing in the file is executed: it names classes of this library and of scikit-learn, and holds numbers and text.

    Parameters
    ----------
    path : str or Path
    kind : type, default=None
        The class that the estimator has to be of, such as ``FederatedGrangerEstimator``: editors and type checkers know
        it then, and a file of something else is refused.
    own : dict of str to class or function, default=None
        Your own classes and functions by the names under which they were saved.
    max_bytes : int, default=2**30
        Refuse files that are larger once they are unpacked.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file comes from a later version, is damaged, is no such file, or holds no estimator of the `kind`.
    FileNotFoundError
        If there is none.

    See Also
    --------
    save : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> import skfedcausal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skfedcausal.save(skfedcausal.KalmanClient(n_states=3), f"{folder}/client.skfc")
    ...     skfedcausal.load(f"{folder}/client.skfc", kind=skfedcausal.KalmanClient)
    KalmanClient(n_states=3)
    """
    _check_arguments(path, own)
    check_number(max_bytes, "max_bytes")
    path = Path(path)
    document, numbers = read_archive(path, max_bytes)
    try:
        document = _current(document)
        objects = ObjectKinds(own, document["forms"])
        kinds = {kind.name: kind for kind in (*_KINDS.values(), *objects.kinds)}
        found = Reader(document["nodes"], numbers, kinds).value(document["root"])
    except ModelFileError as error:
        raise ModelFileError(f"{path} cannot be read: {error}.") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} is damaged: {type(error).__name__}: {error}. Take a copy of it that is whole, or save it again."
        ) from error
    if kind is not None and not isinstance(found, kind):
        raise ModelFileError(f"{path} holds a {type(found).__name__}, not a {kind.__name__}.")
    return found


def _check_arguments(path, own):
    check_kind(path, "`path`", (str, PathLike), "the path of a file")
    if not Path(path).name:
        raise ValueError(f"Got path={str(path)!r}; give the path of a file.")
    if own is not None:
        check_kind(own, "`own`", (Mapping,), "a dict from name to class or function")


def _kind_of(value, objects):
    """Kind of a value, or None if it may not stand in a file."""
    known = _KINDS.get(type(value))
    if known is None:
        base = next((base for base in _BASES if isinstance(value, base)), None)
        known = _KINDS.get(sparse.sparray if base is sparse.spmatrix else base)
    return objects.kind_of(value) if known is None else known


def _current(document):
    """A document as this version writes it, from one of this or an earlier version."""
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ModelFileError(f"it is no {_FORMAT}")
    schema, by = document["schema"], document["written_by"]["skfedcausal"]
    if type(schema) is not int or schema > SCHEMA or _release(by) > _release(__version__):
        raise ModelFileError(
            f"skfedcausal {by} wrote it in schema {schema}, and this is skfedcausal {__version__}, which reads what it "
            f"and earlier versions wrote in schemas up to {SCHEMA}; install skfedcausal {by} or later"
        )
    for step in range(schema, SCHEMA):
        document = OLDER[step](document)
    return document


def _release(version):
    """Numbers of a version that can be compared."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    if numbers is None:
        raise ValueError(f"{version!r} is no version")
    found = [int(part) for part in numbers[0].split(".")]
    while found and found[-1] == 0:
        found.pop()
    return found
