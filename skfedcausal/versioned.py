"""What pickles say of the version that wrote them."""

from typing import Any

from ._version import __version__
from .callers import warn

VERSION_KEY = "_skfedcausal_version"


class InconsistentVersionWarning(UserWarning):
    """A pickle was written by another version than the one that reads it.

    Examples
    --------
    >>> from skfedcausal.versioned import InconsistentVersionWarning
    >>> issubclass(InconsistentVersionWarning, UserWarning)
    True
    """


class Versioned:
    """Mix-in of classes whose pickles say which version wrote them: a reader of another version warns."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**(state or {}), VERSION_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        written = state.pop(VERSION_KEY, "before 0.2")
        if written != __version__:
            warn(
                f"A {type(self).__name__} was pickled by skfedcausal {written}, and this is {__version__}, which may "
                "read it wrongly or not at all. Fit again, or keep models in files of `skfedcausal.save`, which later "
                "versions read.",
                InconsistentVersionWarning,
            )
        parent: Any = super()
        if hasattr(parent, "__setstate__"):
            parent.__setstate__(state)
        else:
            vars(self).update(state)
