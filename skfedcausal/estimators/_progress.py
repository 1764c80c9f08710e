"""Progress of a fit: scikit-learn's callbacks where there are any, and the log."""

import logging
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])


class _NoCallbacks:
    """Estimators have no callbacks in versions of scikit-learn before 1.9."""


def _as_it_is(method: _Method) -> _Method:
    """The method as it is."""
    return method


if TYPE_CHECKING:
    from typing import TypeAlias

    CallbackSupportMixin: TypeAlias = _NoCallbacks
    with_callbacks = _as_it_is
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:
        CallbackSupportMixin, with_callbacks = _NoCallbacks, _as_it_is

__all__ = ["CallbackSupportMixin", "followed", "with_callbacks", "written_out"]


@contextmanager
def written_out():
    """Send the package's log to standard error for a while."""
    log, handler = logging.getLogger("skfedcausal"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(min(log.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def followed(estimator, root):
    """Tell an estimator's callbacks of its fit, whose context is `root`; gives what tells them of an exchange."""
    root.call_on_fit_task_begin(estimator=estimator)

    @contextmanager
    def follow(operation):
        task = root.subcontext(task_name=operation)
        task.call_on_fit_task_begin(estimator=estimator)
        yield
        task.call_on_fit_task_end(estimator=estimator)

    yield follow
    root.call_on_fit_task_end(estimator=estimator)
