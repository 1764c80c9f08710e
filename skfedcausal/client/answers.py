"""What a unit computes locally, from its own record and from what it received, whatever its client is."""

from dataclasses import replace

import numpy as np

from ..message.packet import PacketError
from ..message.states import StateMessage
from ..statespace.episodes import episode_lengths, lagged_rows
from .monitor import ResidualFlag
from .records import in_use
from .unit_model import UnitClient, expected_measurements, under_noise


def loadings(client, n_states):
    """How a unit's measurements follow its states, shape (n_sensors, n_states), whatever its client is."""
    level = client.measurements(np.zeros((1, n_states)))
    return (client.measurements(np.eye(n_states)) - level).T


def mapped_effect(site, reply):
    """Effect of a change of inputs on a unit's measurements, and its variance, shape (n_steps, n_sensors)."""
    C = loadings(site["client"], reply.states.shape[1])
    variance = effect_variances(reply, C)
    error = site.get("loading_error")
    if error is not None:
        variance += error.variance(reply.states)
    return reply.states @ C.T, variance


def effect_variances(reply, C):
    """Variances of ``C`` times the states of an effect, NaN where it came without covariances.

    C is (n_sensors, n_states), the variances (n_steps, n_sensors).
    """
    if reply.covariances is None:
        return np.full((len(reply.states), len(C)), np.nan)
    return np.einsum("di,tij,dj->td", C, reply.covariances, C).clip(0)


def forecast_variance(client, reply):
    """Variance of what a forecast of the states' scores misses of measurements, shape (n_samples, n_sensors).

    A score holds the sensor noise along the states; what the scores do not show of it is added here.
    """
    C = loadings(client, reply.states.shape[1])
    noise = getattr(client, "measurement_cov_", np.zeros(len(C)))
    R = np.diag(noise) if noise.ndim == 1 else noise
    seen = np.isfinite(R.diagonal()) & (R.diagonal() > 0)
    rest = np.zeros(len(C))
    if seen.any():
        of_seen, R = C[seen], R[np.ix_(seen, seen)]
        J = of_seen.T @ np.linalg.solve(R, of_seen)
        rest[seen] = (R - of_seen @ np.linalg.pinv(J, hermitian=True) @ of_seen.T).diagonal().clip(0)
    return effect_variances(reply, C) + rest


def local_features(client, Y, U, starts, n_states=None):
    """Centred measurements with the missing ones replaced by their filtered expectation. Shape (n_samples, n_used)."""
    if not isinstance(client, UnitClient):
        states = _filtered(client, Y, U, starts, n_states)
        level = client.measurements(np.zeros((1, states.shape[1])))
        expected = in_shape(client.measurements(states), Y.shape, client, "measurements")
        centred = np.where(np.isnan(Y), expected, Y) - level
        return np.nan_to_num(centred)  # a sensor that was never seen has no level
    Y = in_use(client, Y)
    model = client.model
    centred = Y - model.mean
    if not is_complete(Y):
        missing = np.isnan(centred)
        expected = model.filter(Y, U, starts) @ model.C.T
        centred[missing] = expected[missing]
    return centred


def is_complete(Y):
    """Whether no measurement is missing."""
    return bool(np.isfinite(Y.sum()))  # a missing value anywhere reaches the sum


def in_shape(value, shape, part, method):
    """What a part of the user's own gave, if it has the shape that it should have."""
    if np.shape(value) != shape:
        raise PacketError(
            f"`{method}` of its {type(part).__name__} gave an array of shape {np.shape(value)}, expected {shape}."
        )
    return value


def _filtered(client, Y, U, starts, n_states=None):
    """States by the unit's own filter."""
    if isinstance(client, UnitClient):
        return client.model.filter(in_use(client, Y), U, starts)
    states = client.filter(Y, **along(Y, U, starts))
    return states if n_states is None else in_shape(states, (len(Y), n_states), client, "filter")


def _predicted(client, Y, U, starts):
    """Measurements predicted one step ahead by the unit's own filter."""
    if isinstance(client, UnitClient):
        states = client.model.predict(in_use(client, Y), U, starts)
        return expected_measurements(client, states, Y, U, starts)
    return in_shape(client.predict(Y, **along(Y, U, starts)), Y.shape, client, "predict")


def local_prediction(site, Y, U, starts, *, augmented):
    """Measurements predicted one step ahead by what the unit itself has, shape (n_samples, n_sensors)."""
    client = site["client"]
    if not augmented:
        return _predicted(client, Y, U, starts)
    if hasattr(site["augmenter"], "corrected_measurements"):  # trained to correct the filtered states
        return site["augmenter"].corrected_measurements(client, Y, starts)
    filtered = _filtered(client, Y, U, starts, len(site["transition"]))
    n_lags = site["transition"].shape[1] // len(site["transition"])
    states = lagged_rows(filtered, n_lags, starts) @ site["transition"].T
    if "input_matrix" in site:
        states += _driven(U - site["input_mean"], site["input_matrix"], starts)
    states[list(starts)] = 0.0
    guess = site["augmenter"].predict(local_features(client, Y, U, starts, states.shape[1]), starts)
    states += in_shape(guess, states.shape, site["augmenter"], "predict")
    if isinstance(client, UnitClient):
        return expected_measurements(client, states, Y, U, starts)
    return in_shape(client.measurements(states), Y.shape, client, "measurements")


def _driven(inputs, matrix, starts):
    """What its own inputs add, those of the row before or, through blocks side by side, of rows 0, 1, ... before.

    `inputs` is (n_samples, k), `matrix` (p, k n_lags).
    """
    n_lags = matrix.shape[1] // inputs.shape[1]
    before = lagged_rows(inputs, max(n_lags - 1, 1), starts)
    return (before if n_lags == 1 else np.hstack([inputs, before])) @ matrix.T


def off_baseline(client, Y, index, starts, after=None):
    """Watched measurements less seasons and the like of a client that knows any, and the number of the last row."""
    baseline = getattr(client, "baseline_", None)
    if baseline is None:
        return Y, None
    off, last = getattr(baseline, "watched", baseline).of(Y, index, starts, after)
    return Y - off, last


def unit_message(client, Y, starts, *, inputs=None, const=False, local_model=False, monitor=None):
    """Message of a fitted client about measurements, whatever kind of client it is."""
    if monitor is not None and not (const or local_model):
        return monitor.message(shown_columns(client, Y), starts)[0].with_inputs(inputs)
    wishes = {"const": const, "local_model": local_model}
    if isinstance(client, UnitClient):
        return client.message_about(Y, starts, inputs=inputs, **wishes)
    message = client.message(Y, **wishes, **along(Y, inputs, starts))
    about_these_rows = isinstance(message, StateMessage) and len(message.z) == len(Y)
    return message.with_inputs(inputs) if about_these_rows and message.inputs is None else message


def along(Y, inputs, starts):
    """Keywords of the methods of a KalmanClient beside the record."""
    known = {} if inputs is None else {"inputs": inputs}
    return {"lengths": episode_lengths(starts, len(Y)), **known}


def stream_message(state, Y, starts, known=None, measured=None):
    """Message about the next rows of a stream, and what the unit has to know for those after them.

    `measured` are the rows before seasons and the like were taken off.
    """
    known, habit = (None, None) if known is None else known
    if state.get("monitor") is not None:
        message, known = state["monitor"].message(shown_columns(state["client"], Y), starts, known)
    else:
        message, known = unit_message(state["client"], Y, starts), None
    message, habit = with_events(message, state.get("habits"), Y if measured is None else measured, starts, habit)
    return message, (known, habit)


def with_events(message, habits, Y, starts, before=None):
    """A message with what the unit notices of the habits of its columns, and where a stream stands after it."""
    if habits is None:
        return message, None
    events, after = habits.events(Y, starts, before)
    return (message if events is None else replace(message, events=events)), after


def shown_columns(client, Y):
    """Columns that a client's monitor looks at."""
    return in_use(client, Y) if isinstance(client, UnitClient) else Y


def factual(client, Y, reply):
    """A unit's measurements, expected ones where they are missing, and the variance of those.

    The variance is None where nothing had to be found out, both of shape (n_samples, n_sensors).
    """
    if reply.states is None:
        return Y, None
    C, missing = loadings(client, reply.states.shape[1]), np.isnan(Y)
    noise = getattr(client, "measurement_cov_", np.zeros(len(C)))
    noise = noise if noise.ndim == 1 else np.diag(noise)
    spread = np.einsum("di,tij,dj->td", C, reply.covariances, C) + np.where(np.isinf(noise), 0, noise)
    return np.where(missing, client.measurements(reply.states), Y), np.where(missing, spread, 0.0)


# -- flags ---------------------------------------------------------------------------------------


def own_record(state):
    """State of a unit for its raw record, to which no noise was added."""
    client = state["client"]
    if not (isinstance(client, UnitClient) or hasattr(client, "with_noise")):  # cannot be told of noise
        return state
    return {**state, "client": under_noise(client, np.zeros(len(client.mean_)))}


def learned_flags(state, Y, starts, percentile):
    """Flags of the unit's own and its augmented model, from nominal measurements."""
    return tuple(ResidualFlag.learn(rest, percentile) for rest in _residuals(state, Y, starts))


def flags_of(state, Y, starts):
    """Flags about measurements, bool of shape (n_samples, 2)."""
    rests = _residuals(state, Y, starts)
    raised = [flag.raised(rest) for flag, rest in zip(state["flags"], rests, strict=True)]
    return np.column_stack(raised).astype(bool)


def _residuals(state, Y, starts):
    """Measurements less what the unit's own and its augmented model predict, zero where they do not vary."""
    active = getattr(state["client"], "used_columns", np.ones(Y.shape[1], dtype=bool))
    predictions = (local_prediction(state, Y, None, starts, augmented=a) for a in (False, True))
    return [Y - np.where(active, predicted, Y) for predicted in predictions]
