"""One `random_state` for all parts: estimators hand theirs to every part that has none of its own."""

from numbers import Integral

from sklearn.base import clone
from sklearn.utils import check_random_state


def copied(part):
    """Clone of a part; of one with a parameter of which there cannot be two, such as a generator, it is said which.

    Raises
    ------
    TypeError

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.seeding import copied
    >>> copied(KalmanClient(A=(row for row in [[0.5]])))
    Traceback (most recent call last):
        ...
    TypeError: The parameter 'A' of KalmanClient is a generator, which cannot be copied; give a list or an array.
    """
    try:
        return clone(part)
    except TypeError:
        for name, value in () if isinstance(part, type) else part.get_params().items():
            try:
                clone(value, safe=False)
            except TypeError:
                raise TypeError(
                    f"The parameter {name!r} of {type(part).__name__} is a {type(value).__name__}, which cannot be "
                    "copied; give a list or an array."
                ) from None
        raise


def generator_of(random_state, who):
    """scikit-learn's generator of a `random_state`, which is refused in words where it is none of who takes it.

    Examples
    --------
    >>> from skfedcausal.seeding import generator_of
    >>> int(generator_of(0, "stable_links").randint(100))
    44
    """
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"Got random_state={random_state!r} in {who}; give a whole number from 0 to 2**32 - 1, or a RandomState."
        ) from None


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
    copy = copied(template)
    seed = 0 if random_state is None else random_state
    if not isinstance(seed, Integral):
        seed = int(check_random_state(seed).randint(2**31 - 1))
    states = {k: v for k, v in copy.get_params().items() if k.rpartition("__")[2] == "random_state"}
    return copy.set_params(**{name: seed for name, value in states.items() if value is None})
