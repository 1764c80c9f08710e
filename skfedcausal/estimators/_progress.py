"""Progress of a fit: scikit-learn's callbacks where there are any, and the log."""

import logging
from contextlib import contextmanager

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Estimators have no callbacks in this version of scikit-learn."""

    def with_callbacks(method):
        """The method as it is."""
        return method


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
