"""Who called: the line of the user that a warning is about, and what scikit-learn has cut."""

import sys
import warnings
from types import FrameType

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
    >>> from skfedcausal.callers import warn
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
    >>> from skfedcausal.callers import cut_by_scikit_learn
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
