"""Who called: the line of the user that a warning is about, and what scikit-learn has cut."""

import sys
from types import FrameType

_BETWEEN = {"skfedcausal", "sklearn", "joblib", "contextlib", "functools", "threading", "concurrent", "asyncio"}
_CUTTING = "sklearn.model_selection"


def _frames(depth):
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _root(frame):
    """Package of a frame's module."""
    module = frame.f_globals
    return (module.get("__package__") or module.get("__name__") or "").partition(".")[0]


def users_line():
    """Stack level, for ``warnings.warn``, of the nearest caller who is no library's.

    Returns
    -------
    int
        Of the function that asks, where there is no such caller.

    Examples
    --------
    >>> from skfedcausal.callers import users_line
    >>> users_line()
    1
    """
    levels = (level for level, frame in enumerate(_frames(1), 1) if _root(frame) not in _BETWEEN)
    return next(levels, 1)


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
    cutting = (frame for frame in _frames(1) if frame.f_globals.get("__name__", "").startswith(_CUTTING))
    own = ("X_train", "X_test", "X_partial_train")  # what `_safe_split` gives; the whole X of a refit is none of them
    return any(frame.f_locals.get(name) is X for frame in cutting for name in own)
