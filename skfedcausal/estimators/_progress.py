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


_log = logging.getLogger(__name__)

__all__ = ["CallbackSupportMixin", "FollowedTransport", "followed"]


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
    log, handler = logging.getLogger(__package__), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(min(log.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


class FollowedTransport:
    """Transport that tells the estimator's callbacks and the log of every exchange with the units."""

    def __init__(self, transport, estimator):
        self._transport = transport
        self._estimator = estimator
        self._context = getattr(estimator, "_callback_fit_ctx", None)

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def exchange(self, out, *, timeout=None):
        """One packet to each named unit, and the answers."""
        op = next(iter(out.values())).op if out else "nothing"
        task = None
        if self._context is not None:
            task = self._context.subcontext(task_name=op)
            task.call_on_fit_task_begin(estimator=self._estimator)
        answers = self._transport.exchange(out, timeout=timeout)
        _log.info("%s: %d units asked, %d answered", op, len(out), len(answers))
        if task is not None:
            task.call_on_fit_task_end(estimator=self._estimator)
        return answers
