"""What arguments are: what users give, what is refused by its name, and whose line a warning is about."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from os import PathLike
from reprlib import repr as short
from types import FrameType
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

# What arguments of questions are, by their names: a question is not begun with one that is of another kind.

_Question = TypeVar("_Question", bound=Callable[..., Any])

_NUMBER = (Real,), "a number"
_COUNT = (Integral,), "a whole number"
_FLAG = (bool, np.bool_), "True or False"
_WORD = (str,), "a word"
_NAME = (str, Integral, tuple), "a name or a position"
_KINDS = {
    **dict.fromkeys(("alpha", "threshold", "held_out", "scale", "margin", "tol", "max_offset"), _NUMBER),
    **dict.fromkeys(("epsilon", "delta", "mu", "noise_multiplier", "radius"), _NUMBER),
    **dict.fromkeys(("confidence", "strength", "forget", "horizon"), ((Real, str), "a number")),  # words: see there
    **dict.fromkeys(("n_frequencies", "n_resamples", "n_steps", "n_draws", "n_jobs"), _COUNT),
    **dict.fromkeys(("n_releases", "n_categories"), _COUNT),
    **dict.fromkeys(("conditional", "geweke", "return_std", "split", "undecided", "dry_run"), _FLAG),
    **dict.fromkeys(("local_model", "strict"), _FLAG),
    "starts": ((list, tuple, range, np.ndarray, pd.Index), "a list of first rows of episodes"),
    **dict.fromkeys(("model", "method", "loops", "sensors", "question", "times", "kind"), _WORD),
    **dict.fromkeys(("cause", "effect", "input", "output", "unit"), _NAME),
    "n": ((str, Integral, tuple, list), "a name or a position, or a list of them"),
    "block_length": ((Integral, str), "a number of rows, or 'episodes'"),
    "limits": ((Mapping,), "a dict"),
    "path": ((str, PathLike), "the path of a file"),
    "frequencies": ((list, tuple, np.ndarray, pd.Series, pd.Index), "a list of numbers"),
}


def checked(question: _Question) -> _Question:
    """The question, which refuses arguments of another kind than their names say; None is left to the question.

    Parameters
    ----------
    question : callable

    Returns
    -------
    callable
        The same where no argument has a name that says what it is.

    Examples
    --------
    >>> from skfedcausal.arguments import checked
    >>> @checked
    ... def gain(input, confidence=0.9):
    ...     return confidence
    >>> gain("valve")
    0.9
    >>> gain("valve", confidence=[0.5, 0.9])
    Traceback (most recent call last):
        ...
    TypeError: Got `confidence` of type list in gain; give a number.
    """
    places = {}
    for place, parameter in enumerate(signature(question).parameters.values()):
        if parameter.name in _KINDS:
            kind = _WORD if isinstance(parameter.default, str) else _KINDS[parameter.name]
            places[parameter.name] = place, *kind
    if not places:
        return question

    @wraps(question)
    def asked(*given, **settings):
        for name, (place, kinds, words) in places.items():
            value = settings.get(name, given[place] if place < len(given) else None)
            if value is not None:
                check_kind(value, f"`{name}`", kinds, words, f" in {question.__name__}")
        return question(*given, **settings)

    return asked  # type: ignore[return-value]


def check_kind(value, name, kinds, words, where=""):
    """Refuse a value that is of none of some classes.

    Parameters
    ----------
    value : object
    name : str
        Of the argument.
    kinds : tuple of type
    words : str
        What it has to be.
    where : str, default=""
        Of what the argument is.

    Raises
    ------
    TypeError

    Examples
    --------
    >>> from skfedcausal.arguments import check_kind
    >>> check_kind({"boiler__PT1": "bar"}, "`measures`", (dict,), "a dict")
    """
    single = isinstance(value, np.ndarray) and value.ndim == 0  # which is no list
    if not isinstance(value, kinds) or isinstance(value, np.timedelta64) or single:  # a duration is whole to Python
        raise TypeError(f"Got {name} of type {type(value).__name__}{where}; give {words}.")


def check_choice(name, value, choices):
    """Refuse a word that is none of those to choose from.

    Parameters
    ----------
    name : str
        Of the argument.
    value : object
    choices : sequence of str

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from skfedcausal.arguments import check_choice
    >>> check_choice("how", "last", ("last", "mean"))
    """
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise ValueError(f"Got {name}={value!r}; choose {', '.join(others)} or {last}.")


def check_confidence(confidence):
    """Refuse a confidence of intervals and bands that is none.

    Parameters
    ----------
    confidence : object

    Raises
    ------
    ValueError
        If it is no number between 0 and 1.

    Examples
    --------
    >>> from skfedcausal.arguments import check_confidence
    >>> check_confidence(0.9)
    """
    if not (isinstance(confidence, float | np.floating) and 0 < confidence < 1):
        raise ValueError(f"Got confidence={confidence!r}; give a number between 0 and 1, such as 0.9.")


def check_number(number, name, least=1):
    """Refuse a number of things that is none.

    Parameters
    ----------
    number : object
    name : str
        Of the argument.
    least : int, default=1

    Raises
    ------
    ValueError
        If it is no whole number, or too small.

    Examples
    --------
    >>> from skfedcausal.arguments import check_number
    >>> check_number(3, "n_resamples")
    """
    if isinstance(number, bool | np.timedelta64) or not isinstance(number, Integral) or number < least:
        raise ValueError(f"Got {name}={number!r}; give a whole number, at least {least}.")


def check_not_negative(**numbers):
    """Refuse numbers that are below zero, or none.

    Parameters
    ----------
    **numbers : float
        By their names.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from skfedcausal.arguments import check_not_negative
    >>> check_not_negative(radius=1.0)
    """
    for name, value in numbers.items():
        if value is None or not value >= 0:
            raise ValueError(f"Got {name}={value!r}; give a number that is not negative.")


def as_numbers(given, what):
    """Finite numbers of an argument in an array.

    Parameters
    ----------
    given : array-like
        One number, or several.
    what : str
        Name of the argument.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        If there are none, or any is not finite.

    Examples
    --------
    >>> from skfedcausal.arguments import as_numbers
    >>> as_numbers([1, 2.5], "doses").tolist()
    [1.0, 2.5]
    """
    try:
        numbers = as_floats(given, what).ravel()
    except ValueError:
        numbers = np.empty(0)
    if not (numbers.size and np.isfinite(numbers).all()):
        raise ValueError(f"Got {what}={short(given)}; give a list of finite numbers.")
    return numbers


def as_floats(given: Any, name: str, words: str = "a 2-D array, or one list per row") -> np.ndarray:
    """Real numbers of an argument in an array of its shape.

    Parameters
    ----------
    given : array-like
    name : str
        Of the argument.
    words : str
        What to give.

    Returns
    -------
    ndarray of float

    Raises
    ------
    ValueError
        If something in it is no real number, or its rows differ in length.

    Examples
    --------
    >>> from skfedcausal.arguments import as_floats
    >>> as_floats([[1, 2]], "A")
    array([[1., 2.]])
    """
    try:
        array = np.asarray(given)
        if array.dtype.kind in "cmMSU":  # complex, times and words, some of which turn into numbers without a word
            raise TypeError
        return array.astype(float, copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not a table of real numbers; give {words}.") from None


@contextmanager
def rows_of_numbers(X, name="X"):
    """Say of what is no table of numbers what it is, where a check of scikit-learn leaves that to NumPy.

    Parameters
    ----------
    X : object
        What is checked within.
    name : str, default="X"

    Raises
    ------
    TypeError, ValueError
        As the check, with more words.

    Examples
    --------
    >>> from sklearn.utils import check_array
    >>> from skfedcausal.arguments import rows_of_numbers
    >>> with rows_of_numbers({"boiler": [1.0]}):
    ...     check_array({"boiler": [1.0]}, dtype=float)
    Traceback (most recent call last):
        ...
    TypeError: Got X of type dict, which is no table of numbers, one row per time step and one column per sensor: ...
    """
    if isinstance(X, pd.DataFrame) and not X.columns.is_unique:
        raise ValueError(f"Got {name} with columns of the same name; give every one its own.")
    try:
        yield
    except (TypeError, ValueError) as error:
        if np.iscomplexobj(X):  # of which the check says enough
            raise
        try:
            np.asarray(X, dtype=float)
        except (TypeError, ValueError):
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                f"Got {name} of type {type(X).__name__}, which is no table of numbers, one row per time step and one "
                f"column per sensor: {error}"
            ) from None
        raise


def weighted_mean(values, sample_weight):
    """Mean of a value for each row, by weights of the rows.

    Parameters
    ----------
    values : ndarray of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,) or None

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the weights are no numbers that are zero or more, one for each row, or all are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.arguments import weighted_mean
    >>> weighted_mean(np.array([1.0, 5.0]), [3.0, 1.0])
    2.0
    """
    if sample_weight is None:
        return float(values.mean())
    weights = as_numbers(sample_weight, "sample_weight")
    if weights.shape != values.shape or (weights < 0).any() or not 0 < weights.sum() < np.inf:
        raise ValueError(
            f"Got `sample_weight` of type {type(sample_weight).__name__}; give one finite number for each of "
            f"{len(values)} rows, none below zero and not all zero."
        )
    return float(np.average(values, weights=weights))


# What users give, as type checkers see it: records of a plant, inputs beside them, lengths of episodes.


class HasArray(Protocol):
    """Arrays, and tables that make one."""

    def __array__(self) -> Any: ...


class HasEpisodes(Protocol):
    """A :class:`~skfedcausal.PlantTable`, and whatever else knows where it is cut."""

    def to_episodes(self) -> list[pd.DataFrame]: ...


class Fitted(Protocol):
    """Parts that are fitted: augmenters and the models of most clients."""

    def fit(self, *args: Any, **settings: Any) -> Any: ...


class Dialogue(Protocol):
    """Servers that speak with the units themselves."""

    def dialogue(self, *args: Any, **settings: Any) -> Any: ...


class Server(Protocol):
    """Servers that have learned: what all of them know; what else there is depends on which one was given."""

    names_: tuple[str, ...]
    state_slices_: dict[str, slice]
    transition_: np.ndarray
    process_cov_: np.ndarray

    def __getattr__(self, name: str) -> Any: ...


class Filtered(Protocol):
    """Clients that are not fitted, as those whose functions are known."""

    def filter_moments(self, *args: Any, **settings: Any) -> Any: ...


Record = list[Any] | tuple[Any, ...] | Mapping[Any, Any] | pd.DataFrame | HasArray | HasEpisodes
Inputs = list[Any] | tuple[Any, ...] | Mapping[Any, Any] | pd.DataFrame | HasArray | None
Lengths = Sequence[int] | np.ndarray | None
Setting = float | str | Sequence[Any] | np.ndarray | pd.Series | Mapping[str, Any]  # of inputs, one or row by row
Unit = str | int | np.integer
Client = Fitted | Filtered
Seed = int | np.integer | np.random.RandomState | None
ByUnit = float | Mapping[str, float] | None
Columns = Sequence[Any] | Mapping[Any, Any] | np.ndarray | pd.Index | pd.Series | Callable[..., Any]


# Who called: the line of the user that a warning is about, and what scikit-learn has cut.

_BETWEEN = {"skfedcausal", "sklearn", "joblib", "contextlib", "functools", "threading", "concurrent", "asyncio"}
_CUTTING = "sklearn.model_selection"
_PARTS = ("X_train", "X_test", "X_partial_train")  # as it calls them there; the X of a refit is none


def _root(frame):
    """Package of a frame's module."""
    module = frame.f_globals
    return (module.get("__package__") or module.get("__name__") or "").partition(".")[0]


def warn(message, category=UserWarning):
    """Warn at the line of the user, whom no library has called.

    Parameters
    ----------
    message : str or Warning
    category : type, default=UserWarning

    Examples
    --------
    >>> import warnings
    >>> from skfedcausal.arguments import warn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("Sensor 3 is stuck.")
    >>> str(caught[0].message)
    'Sensor 3 is stuck.'
    """
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and _root(frame) in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=1 if frame is None else level)


def cut_by_scikit_learn(X):
    """Whether scikit-learn's cross-validation has made X, by taking some elements of what it was given.

    Parameters
    ----------
    X : object

    Returns
    -------
    bool

    Examples
    --------
    >>> from skfedcausal.arguments import cut_by_scikit_learn
    >>> cut_by_scikit_learn([1, 2])
    False
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        is_cutting = frame.f_globals.get("__name__", "").startswith(_CUTTING)
        if is_cutting and any(frame.f_locals.get(name) is X for name in _PARTS):
            return True
        frame = frame.f_back
    return False
