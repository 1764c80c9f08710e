"""One `random_state` for all parts: estimators hand theirs to every part that was not given one."""

from numbers import Integral

from sklearn.base import clone
from sklearn.utils import check_random_state


def seeded(template, random_state):
    """Clone of a part with every `random_state` that is None, its own or a nested one, set.

    Parameters
    ----------
    template : estimator or None
    random_state : int, RandomState instance or None
        None always sets the same.

    Returns
    -------
    estimator or None

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
    open_ones = [
        name
        for name, value in copy.get_params(deep=True).items()
        if name.rpartition("__")[2] == "random_state" and value is None
    ]
    return copy.set_params(**dict.fromkeys(open_ones, seed))
