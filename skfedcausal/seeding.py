"""One `random_state` for all parts: estimators hand theirs to every part that has none of its own."""

from numbers import Integral

from sklearn.base import clone
from sklearn.utils import check_random_state


def seeded(template, random_state):
    """Clone of a part with every `random_state` that is None, its own or a nested one, set; None as 0.

    Examples
    --------
    >>> from sklearn.neural_network import MLPRegressor
    >>> from skfedcausal import RegressorAugmenter
    >>> from skfedcausal.seeding import seeded
    >>> seeded(RegressorAugmenter(MLPRegressor()), 3).estimator.random_state
    3
    """
    if not hasattr(template, "get_params"):
        return template
    copy = clone(template)
    seed = 0 if random_state is None else random_state
    if not isinstance(seed, Integral):
        seed = int(check_random_state(seed).randint(2**31 - 1))
    states = {k: v for k, v in copy.get_params().items() if k.rpartition("__")[2] == "random_state"}
    return copy.set_params(**{name: seed for name, value in states.items() if value is None})
