"""Whether an object can be an augmenter."""

import numpy as np

from ..client.augmenter import as_augmenter
from ..seeding import seeded
from ._rules import check_parameters, check_rules, close, frozen, real, require, same, sent

_STARTS = (0, 90)  # episodes of 90 and 110 rows


def check_augmenter(augmenter):
    """Check whether an object can be an augmenter.

    A regressor of scikit-learn is checked in the :class:`~skfedcausal.RegressorAugmenter` that estimators
    wrap it in. The rules are those of :class:`~skfedcausal.Augmenter`. Takes a few fits to 200 rows of made
    measurements; the object that is given is cloned and stays as it is.

    Parameters
    ----------
    augmenter : Augmenter or regressor
        Unfitted.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        With the first rule that does not hold, what was seen and what to do.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skfedcausal.testing import check_augmenter
    >>> check_augmenter(Ridge())
    """
    check_rules(augmenter, _RULES, augmenter)


def _record(n_columns=3, n_states=2, seed=0):
    """Centred measurements of two episodes, the cross term that they tell of, and a transition matrix."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((200, n_columns))
    for t in range(1, len(Y)):
        Y[t] += 0.7 * Y[t - 1]
    Y -= Y.mean(axis=0)
    C = np.zeros((len(Y), n_states))
    C[1:] = Y[:-1] @ rng.standard_normal((n_columns, n_states)) + 0.1 * rng.standard_normal((199, n_states))
    C[list(_STARTS)] = 0.0
    return Y, C, 0.5 * np.eye(n_states) + 0.1


def _new(augmenter):
    return seeded(as_augmenter(augmenter), 0)


def _fitted(augmenter, n_columns=3, n_states=2):
    Y, C, A = _record(n_columns, n_states)
    return _new(augmenter).fit(Y, C, A, _STARTS), Y


def _check_parameters(augmenter):
    used = _new(augmenter)
    check_parameters(augmenter)
    template = _new(augmenter)
    used.fit(*_record(), _STARTS)
    check_parameters(template, used)


def _check_fit_returns_self(augmenter):
    one = _new(augmenter)
    came = one.fit(*_record(), _STARTS)
    require(came is one, f"It returned a {type(came).__name__}. End `fit` with `return self`.")


def _check_arguments(augmenter):
    record = _record()
    before, one = frozen(*record), _new(augmenter)
    one.fit(*record, _STARTS)
    names = ("Y", "cross_term", "transition")
    for name, was, now in zip(names, before, frozen(*record), strict=True):
        require(was == now, f"`fit` changed `{name}` in place. Work on a copy.")
    one.predict(record[0], _STARTS)
    require(frozen(record[0]) == before[:1], "`predict` changed `Y` in place. Work on a copy.")


def _check_shape(augmenter):
    for n_columns, n_states in ((3, 2), (1, 1), (2, 3)):
        one, Y = _fitted(augmenter, n_columns, n_states)
        what = f"`predict(Y, starts)` for {n_columns} columns and {n_states} states"
        real(one.predict(Y, _STARTS), (len(Y), n_states), what)


def _check_default_starts(augmenter):
    Y, C, _ = _record()
    one = _new(augmenter).fit(Y, C)
    real(one.predict(Y), C.shape, "`predict(Y)`")
    real(one.predict(Y[:1]), C[:1].shape, "`predict` of a single row")


def _check_first_rows(augmenter):
    one, Y = _fitted(augmenter)
    first = one.predict(Y, _STARTS)[list(_STARTS)]
    require(
        not first.any(),
        f"At the rows {_STARTS}, the first of their episodes, `predict` gave {first.tolist()}. Set "
        "`guess[list(starts)] = 0`: a row before which nothing was measured tells nothing.",
    )


def _check_same_fit(augmenter):
    first, Y = _fitted(augmenter)
    second, _ = _fitted(augmenter)
    require(
        same(first.predict(Y, _STARTS), second.predict(Y, _STARTS)),
        "Two clones that were fitted to the same record guess differently. Draw only from a generator that a "
        "parameter `random_state` seeds.",
    )


def _check_fresh_fit(augmenter):
    other, (Y, C, _) = _new(augmenter), _record(seed=1)
    other.fit(*_record(2, 3), _STARTS)
    other.fit(Y[:150], C[:150], None, (0,))
    record = _record()
    guess = other.fit(*record, _STARTS).predict(record[0], _STARTS)
    once, _ = _fitted(augmenter)
    require(
        close(guess, once.predict(record[0], _STARTS), 1e-9),
        "After fits to other records it guesses differently than after the last one alone. Start every `fit` "
        "afresh.",
    )


def _check_repeated_predictions(augmenter):
    one, Y = _fitted(augmenter)
    first = one.predict(Y, _STARTS)
    one.predict(-2 * Y[:50], (0,))
    require(
        same(first, one.predict(Y, _STARTS)),
        "The same rows were guessed differently the second time. `predict` must not learn or remember.",
    )


def _check_past(augmenter):
    one, Y = _fitted(augmenter)
    guess = one.predict(Y, _STARTS)
    for t in (1, 40, 130, len(Y) - 1):
        changed = Y.copy()
        changed[t:] = 3.0 - 2 * changed[t:]
        wrong = ~np.isclose(one.predict(changed, _STARTS)[: t + 1], guess[: t + 1], rtol=1e-7, atol=1e-9)
        rows = np.flatnonzero(wrong.any(axis=1))
        require(
            len(rows) == 0,
            f"Its guess of row {rows[0] if len(rows) else t} changed with the measurements of row {t} and "
            "later ones. Guess every row from the rows before it.",
        )


def _check_episodes(augmenter):
    one, Y = _fitted(augmenter)
    changed = Y.copy()
    changed[: _STARTS[1]] *= -2
    second = slice(_STARTS[1], None)
    require(
        np.allclose(one.predict(changed, _STARTS)[second], one.predict(Y, _STARTS)[second], atol=1e-9),
        "Its guesses about the second episode changed with the measurements of the first. `starts` are rows "
        "before which nothing is known.",
    )


def _check_constant_column(augmenter):
    Y, C, A = _record()
    Y[:, 1] = 0.0
    real(_new(augmenter).fit(Y, C, A, _STARTS).predict(Y, _STARTS), C.shape, "The guess")


def _check_pickle(augmenter):
    one, Y = _fitted(augmenter)
    twin = sent(one)
    require(same(one.predict(Y, _STARTS), twin.predict(Y, _STARTS)), "The copy guesses differently.")


_RULES = {
    "parameters are stored as they are given": _check_parameters,
    "`fit(Y, cross_term, transition, starts)` returns the augmenter": _check_fit_returns_self,
    "arguments are not changed": _check_arguments,
    "`predict(Y, starts)` gives one finite number per row and state": _check_shape,
    "`transition` and `starts` may be left out": _check_default_starts,
    "the first row of an episode is guessed zero": _check_first_rows,
    "the same record gives the same augmenter": _check_same_fit,
    "every fit starts afresh": _check_fresh_fit,
    "`predict` changes nothing": _check_repeated_predictions,
    "a guess rests on earlier rows only": _check_past,
    "an episode knows nothing of the one before": _check_episodes,
    "a column that never changes does no harm": _check_constant_column,
    "a fitted augmenter can be pickled": _check_pickle,
}
