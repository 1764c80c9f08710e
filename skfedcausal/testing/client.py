"""Whether an object can be a unit's model."""

from copy import deepcopy

import numpy as np
from sklearn.base import clone

from ..client.answers import along, unit_message
from ..client.extended_kalman import ExtendedKalmanClient
from ..client.unit_model import UnitClient
from ..client.worker import fitted_client
from ..message.states import StateMessage
from ..seeding import seeded
from ._rules import (
    bits,
    check_parameters,
    check_rules,
    close,
    covariance,
    frozen,
    holds_rows,
    real,
    require,
    same,
    sent,
)

_STARTS = (0, 160)  # episodes of 160 and 140 rows
_ROWS = 300
_METHODS = ("filter", "predict", "measurements")


def check_client(client):
    """Check whether an object can be a unit's model.

    The rules are those of :class:`~skfedcausal.UnitClient`, or of an object with the methods of one, or with
    ``filter_moments`` alone. They are checked on a made record of 300 rows, with as many columns as the
    matrices of the client have, or four. The object that is given is copied and stays as it is.

    Parameters
    ----------
    client : UnitClient or object

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        With the first rule that does not hold, what was seen and what to do.

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.testing import check_client
    >>> check_client(KalmanClient())
    """
    rules = dict(_RULES)
    if isinstance(client, UnitClient):
        rules |= _LINEAR
    if _is_box(client):
        rules = _BOX | rules
    check_rules(client, rules, client)


def _is_box(client):
    return hasattr(client, "filter_moments") and not hasattr(client, "message")


def _record(client, seed=0):
    """Two states seen by as many sensors as the client has, all with a level."""
    d, rng = _n_columns(client), np.random.default_rng(seed)
    A, H = np.array([[0.9, 0.2], [-0.1, 0.7]]), np.zeros((_ROWS, 2))
    for t in range(1, _ROWS):
        H[t] = A @ H[t - 1] + rng.standard_normal(2)
    C = np.vstack([np.eye(2), rng.uniform(0.3, 1.0, (max(d - 2, 0), 2))])[:d]
    return H @ C.T + 0.5 * rng.standard_normal((_ROWS, d)) + 20.0 + np.arange(d)


def _n_columns(client):
    for name in ("C", "observation_", "R", "measurement_cov_"):
        value = getattr(client, name, None)
        if value is not None:
            return len(value)
    return getattr(client, "n_features_in_", 4)


def _new(client):
    """A copy with a seed, not fitted unless the client that was given is."""
    if hasattr(client, "get_params") and hasattr(client, "fit") and not _is_fitted(client):
        return seeded(client, 0)
    return deepcopy(client)


def _is_fitted(client):
    return getattr(client, "is_fitted", False)


def _fitted(client, Y=None, starts=_STARTS):
    """The client as a unit uses it, fitted to the record, and the record."""
    Y = _record(client) if Y is None else Y
    return fitted_client(_new(client), Y, None, starts, "boiler", None), Y


def _message(one, Y, starts=_STARTS, **wishes):
    return unit_message(one, Y, starts, **wishes)


def _filtered(one, Y, starts=_STARTS):
    return np.asarray(one.filter(Y, **along(Y, None, starts)))


def _predicted(one, Y, starts=_STARTS):
    return np.asarray(one.predict(Y, **along(Y, None, starts)))


# -- rules of all ------------------------------------------------------------------------------------


def _check_methods(client):
    require(
        hasattr(client, "message") or hasattr(client, "filter_moments"),
        "It has neither `message` nor `filter_moments`. Derive it from `UnitClient`.",
    )
    lacking = [] if _is_box(client) else [name for name in _METHODS if not hasattr(client, name)]
    require(not lacking, f"It has `message`, but no {', '.join(lacking)}. Derive it from `UnitClient`.")


def _check_parameters(client):
    if not hasattr(client, "get_params"):
        return
    template = _new(client)
    check_parameters(client)
    if hasattr(client, "fit") and not _is_fitted(client):
        used = clone(template)
        used.fit(_record(client), lengths=(160, 140))
        check_parameters(template, used)


def _check_fit(client):
    if not hasattr(client, "fit") or _is_fitted(client):
        return
    one, Y = _new(client), _record(client)
    before = frozen(Y)
    came = one.fit(Y, lengths=(160, 140))
    require(came is one, f"`fit` returned a {type(came).__name__}. End it with `return self`.")
    require(frozen(Y) == before, "`fit` changed the record in place. Work on a copy.")


def _check_arguments(client):
    one, Y = _fitted(client)
    before = frozen(Y)
    calls = {"message": _message, "filter": _filtered, "predict": _predicted}
    for name, call in calls.items():
        first = bits(call(one, Y))
        require(frozen(Y) == before, f"`{name}` changed the record in place. Work on a copy.")
        require(
            first == bits(call(one, Y)),
            f"`{name}` of the same record is another one the second time. It must not learn, "
            "remember or draw.",
        )


def _check_message(client):
    one, Y = _fitted(client)
    for wishes in ({}, {"const": True}, {"local_model": True}):
        message = _message(one, Y, **wishes)
        require(
            isinstance(message, StateMessage), f"It is a {type(message).__name__}. Give a `StateMessage`."
        )
        n_states = np.shape(message.z)[-1]
        real(message.z, (_ROWS, n_states), "`z`")
        real(message.patterns, (len(message.patterns), n_states, n_states), "`patterns`")
        covariance(message.patterns, "An information matrix in `patterns`")
        require(
            tuple(message.lengths) == (160, 140),
            f"`lengths` is {message.lengths} for episodes of 160 and 140 rows.",
        )
        if "const" in wishes:
            require(message.const is not None, "`const=True` asks for `const`, but there is none.")
            real(message.const, (_ROWS,), "`const`")
        if "local_model" in wishes:
            for name in ("transition", "process_cov"):
                value = getattr(message, name)
                require(value is not None, f"`local_model=True` asks for `{name}`, but there is none.")
                real(value, (n_states, n_states), f"`{name}`")
            covariance(message.process_cov, "`process_cov`")
        came = StateMessage.from_packet(message.to_packet())
        require(same(came.z, message.z), "`z` is another one after its way to the server.")


def _check_private(client):
    one, Y = _fitted(client)
    message = _message(one, Y, const=True, local_model=True)
    require(message.inputs is None, "The message has `inputs`, but the unit has none.")
    for name, value in message.to_packet().arrays.items():
        for column in np.reshape(value, (len(value), -1)).T:
            leaked = [
                j for j, raw in enumerate(Y.T) if np.shape(column) == raw.shape and np.allclose(column, raw)
            ]
            require(
                not leaked,
                f"Array `{name}` holds column {leaked[0] if leaked else ''} of the record as "
                "it is. Send states, "
                "never measurements.",
            )


def _check_rows(client):
    one, Y = _fitted(client)
    require(
        not holds_rows(one, [Y]),
        "The pickle of the fitted client holds rows of the record. Keep what was learned, no measurements.",
    )


def _check_pickle(client):
    one, Y = _fitted(client)
    twin = sent(one)
    require(
        same(_message(one, Y, local_model=True), _message(twin, Y, local_model=True)),
        "A copy that was pickled gives another message.",
    )


def _check_same_fit(client):
    first, Y = _fitted(client)
    second, _ = _fitted(client)
    require(
        same(_message(first, Y, local_model=True), _message(second, Y, local_model=True))
        and same(_predicted(first, Y), _predicted(second, Y)),
        "Two copies that were fitted to the same record send other messages. Draw only from a generator that "
        "a parameter `random_state` seeds.",
    )


def _check_fresh_fit(client):
    if not isinstance(client, UnitClient):
        return
    one, Y = _new(client), _record(client)
    one.fit(_record(client, seed=5)[:200])
    one.fit(Y, lengths=(160, 140))
    other = _new(client).fit(Y, lengths=(160, 140))
    require(
        same(_message(one, Y, local_model=True), _message(other, Y, local_model=True)),
        "After a fit to another record it is another model than after the last one alone. Start every `fit` "
        "afresh.",
    )


def _check_shapes(client):
    one, Y = _fitted(client)
    n_states = _message(one, Y).z.shape[1]
    real(_filtered(one, Y), (_ROWS, n_states), "`filter(X)`")
    real(_predicted(one, Y), Y.shape, "`predict(X)`")
    states = np.random.default_rng(0).standard_normal((7, n_states))
    real(np.asarray(one.measurements(states)), (7, Y.shape[1]), "`measurements(states)`")


def _check_past(client):
    one, Y = _fitted(client)
    calls = {"filter": (_filtered, 0), "predict": (_predicted, 1), "message": (lambda *a: _message(*a).z, 0)}
    for name, (call, ahead) in calls.items():
        known = call(one, Y)
        for t in (40, 159, 230):
            changed = Y.copy()
            changed[t:] = 60.0 - changed[t:]
            rows = np.flatnonzero(~np.isclose(call(one, changed), known, rtol=1e-6, atol=1e-6).all(axis=1))
            early = rows[rows < t + ahead]
            require(
                len(early) == 0,
                f"`{name}` of row {early[0] if len(early) else t} changed with the "
                f"measurements of row {t} and "
                "later ones. "
                + (
                    "Predict a row from the rows before it." if ahead else "Use this row and those before it."
                ),
            )


def _check_episodes(client):
    one, Y = _fitted(client)
    changed, second = Y.copy(), slice(_STARTS[1], None)
    changed[: _STARTS[1]] = 60.0 - changed[: _STARTS[1]]
    for name, call in (("filter", _filtered), ("predict", _predicted)):
        require(
            np.allclose(call(one, changed)[second], call(one, Y)[second], atol=1e-6),
            f"`{name}` of the second episode changed with the measurements of the first. "
            "`lengths` says where "
            "an episode begins; the unit knows nothing of the one before.",
        )


def _check_states(client):
    """States that the message tells of lie as close to the measurements as those of the filter."""
    one, Y = _fitted(client)
    message = _message(one, Y)
    J = np.broadcast_to(message.J, (_ROWS, *np.shape(message.patterns)[1:]))
    if np.linalg.cond(J).max() > 1e10 or isinstance(client, ExtendedKalmanClient) or _is_box(client):
        return
    told = np.linalg.solve(J, message.z[:, :, None])[:, :, 0]
    missed = [float(np.mean((Y - one.measurements(h)) ** 2)) for h in (told, _filtered(one, Y))]
    require(
        missed[0] <= 1.5 * missed[1] + 1e-9 * float(np.var(Y)),
        f"The states J^-1 z of the message miss the measurements by {missed[0] ** 0.5:.3g}, "
        "those of `filter` "
        f"by {missed[1] ** 0.5:.3g}. Both have to be about the same states: z = C' R^-1 (y - "
        "mean), J = C' R^-1 "
        "C.",
    )


def _check_gaps(client):
    one, Y = _fitted(client)
    holes = Y.copy()
    holes[20:40, 0] = np.nan
    holes[50:55] = np.nan
    message = _message(one, holes)
    real(message.z, message.z.shape, "`z` of a record with gaps")
    real(_filtered(one, holes), (_ROWS, message.z.shape[1]), "`filter` of a record with gaps")
    real(_predicted(one, holes), Y.shape, "`predict` of a record with gaps")
    nothing = np.broadcast_to(message.J, (_ROWS, *message.patterns.shape[1:]))[50:55]
    scale = np.abs(message.patterns).max()
    require(
        bool(np.abs(message.z[50:55]).max() <= 1e-6 * np.abs(message.z).max())
        and bool(np.abs(nothing).max() <= 1e-6 * scale),
        "In rows without any measurement the message claims to know something. `z` and the "
        "information matrix "
        "are zero there.",
    )


# -- rules of linear models --------------------------------------------------------------------------


def _check_matrices(client):
    one, Y = _fitted(client)
    p, d = one.n_states_, Y.shape[1]
    shapes = {"transition_": (p, p), "process_cov_": (p, p), "observation_": (d, p), "mean_": (d,)}
    for name, shape in shapes.items():
        real(getattr(one, name), shape, f"`{name}`")
    covariance(one.process_cov_, "`process_cov_`")
    R = one.measurement_cov_
    require(
        R.shape in {(d,), (d, d)},
        f"`measurement_cov_` has shape {R.shape}, expected {(d,)} or {(d, d)}.",
    )


def _check_statistic(client):
    one, Y = _fitted(client)
    C, R = one.observation_, one.measurement_cov_
    seen = np.isfinite(R if R.ndim == 1 else np.diag(R))
    inverse = np.diag(1 / R[seen]) if R.ndim == 1 else np.linalg.inv(R[np.ix_(seen, seen)])
    W = inverse @ C[seen]
    message = _message(one, Y, local_model=True)
    expected = {"z": (Y - one.mean_)[:, seen] @ W, "patterns": (C[seen].T @ W)[None]}
    expected |= {"transition": one.transition_, "process_cov": one.process_cov_}
    for name, value in expected.items():
        require(
            close(getattr(message, name), value, 1e-6),
            f"`{name}` of the message is not what the fitted matrices say. z = C' R^-1 (y - "
            "mean), patterns = "
            "[C' R^-1 C], and the model is `transition_` and `process_cov_`.",
        )


def _check_prediction(client):
    one, Y = _fitted(client)
    H = _filtered(one, Y)
    states = np.zeros_like(H)
    states[1:] = H[:-1] @ one.transition_.T
    states[list(_STARTS)] = 0.0
    require(
        close(_predicted(one, Y), one.measurements(states), 1e-6),
        "`predict(X)` is not `measurements` of the filtered states of the row before, moved on by "
        "`transition_`.",
    )
    require(
        close(one.measurements(np.zeros((1, H.shape[1]))), one.mean_[None], 1e-9),
        "`measurements` of states at zero are not `mean_`.",
    )
    require(same(np.asarray(one.transform(Y, lengths=(160, 140))), H), "`transform` and `filter` differ.")
    real(np.asarray(one.score_samples(Y)), (_ROWS,), "`score_samples(X)`")


# -- rules of black boxes ----------------------------------------------------------------------------


def _check_moments(client):
    box, Y = _new(client), _record(client)
    if hasattr(box, "fit") and not _is_fitted(box):
        box.fit(Y)
    answer = box.filter_moments(Y)
    require(
        isinstance(answer, tuple | list) and len(answer) == 4,
        "Give four arrays: predicted states and their covariances, filtered states and theirs.",
    )
    prior, prior_cov, posterior, posterior_cov = (np.asarray(part, dtype=float) for part in answer)
    require(prior.ndim == 2, f"Predicted states have shape {prior.shape}, expected ({_ROWS}, n_states).")
    shape = (_ROWS, prior.shape[1])
    real(prior, shape, "Predicted states")
    real(posterior, shape, "Filtered states")
    for name, value in (("predicted", prior_cov), ("filtered", posterior_cov)):
        wanted = {(shape[1], shape[1]), (*shape, shape[1])}
        require(value.shape in wanted, f"Covariances of {name} states have shape {value.shape}.")
        require(bool(np.isfinite(value).all()), f"Covariances of {name} states are not finite.")
        covariance(value, f"A covariance of {name} states")
    gain = prior_cov - posterior_cov
    require(
        bool(
            np.linalg.eigvalsh((gain + np.swapaxes(gain, -1, -2)) / 2).min()
            >= -1e-8 * np.abs(prior_cov).max()
        ),
        "The filtered covariance is larger than the predicted one. A measurement cannot take knowledge away.",
    )


_RULES = {
    "it has the methods of a unit's model": _check_methods,
    "parameters are stored as they are given": _check_parameters,
    "`fit(X, lengths=...)` returns the client and leaves the record": _check_fit,
    "questions change neither the record nor the client": _check_arguments,
    "`message(X)` is a whole and usable `StateMessage`": _check_message,
    "a message holds no raw measurements": _check_private,
    "a fitted client keeps no rows": _check_rows,
    "a fitted client can be pickled": _check_pickle,
    "the same record gives the same client": _check_same_fit,
    "every fit starts afresh": _check_fresh_fit,
    "`filter`, `predict` and `measurements` give finite numbers for every row": _check_shapes,
    "nothing rests on later rows": _check_past,
    "an episode knows nothing of the one before": _check_episodes,
    "message and filter are about the same states": _check_states,
    "missing measurements tell nothing and do no harm": _check_gaps,
}
_LINEAR = {
    "fitted matrices fit together": _check_matrices,
    "the message is the sufficient statistic of the fitted matrices": _check_statistic,
    "`predict` follows from the fitted matrices": _check_prediction,
}
_BOX = {"`filter_moments(X)` gives states and covariances before and after each row": _check_moments}
