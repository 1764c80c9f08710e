"""What an estimator is asked by the name of a question, be it a method or a function of it."""

from functools import partial

from skfedcausal import inspection, papers


def question(estimator, name):
    """Method of an estimator, or function of `inspection` or `papers` about it."""
    for room in (inspection, papers):
        if name in room.__all__:
            return partial(getattr(room, name), estimator)
    return getattr(estimator, name)
