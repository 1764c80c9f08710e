"""Progress of a fit: scikit-learn's callbacks where there are any, and the log."""

import logging
from contextlib import contextmanager
from functools import wraps

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:
        """Estimators have no callbacks in this version of scikit-learn."""

    def with_callbacks(method):
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "followed", "follower"]


def followed(fit):
    """A `fit` whose exchanges with the units are tasks that callbacks hear of, written out if `verbose`."""

    @with_callbacks
    @wraps(fit)
    def fit_with_callbacks(self, *args, **kwargs):
        root = None
        if hasattr(self, "_skl_callbacks") and hasattr(self, "_init_callback_context"):
            root = self._init_callback_context(max_subtasks=None)
            root.call_on_fit_task_begin(estimator=self)
        with _written_out(self.verbose):
            fitted = fit(self, *args, **kwargs)
        if root is not None:
            root.call_on_fit_task_end(estimator=self)
        return fitted

    return fit_with_callbacks


@contextmanager
def _written_out(verbose):
    """Send the package's log to standard error for a while."""
    if not verbose:
        yield
        return
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


def follower(estimator):
    """Callable that tells the estimator's callbacks of an exchange; None without callbacks."""
    context = getattr(estimator, "_callback_fit_ctx", None)
    if context is None:
        return None

    @contextmanager
    def follow(operation):
        task = context.subcontext(task_name=operation)
        task.call_on_fit_task_begin(estimator=estimator)
        yield
        task.call_on_fit_task_end(estimator=estimator)

    return follow
