"""How many threads the linear algebra beneath NumPy and SciPy may use."""

from contextlib import nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

_MANY = 256  # columns of matrices from which more than one thread pays


def few_threads(n_columns):
    """One thread while matrices of few columns are worked on, as a context manager.

    Several threads gain next to nothing there, and where other work keeps the cores busy they wait for each
    other many times as long as the work takes.

    Parameters
    ----------
    n_columns : int
        Of the matrices; the threads stay as they are if they are many.
    """
    return nullcontext() if n_columns >= _MANY else _controller().limit(limits=1, user_api="blas")


@cache
def _controller():
    """Libraries that are loaded; looking for them takes as long as a small fit."""
    return ThreadpoolController()
