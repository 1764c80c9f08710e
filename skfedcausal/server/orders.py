"""Numbers of states that units choose: what only others can know of them.

A state that forgets within a row and that only the inputs of another unit drive looks like sensor noise that
sensors share: the past of the unit's own measurements says nothing of it. The server knows all inputs of a plant;
units that choose their number of states get those of the others, look again, and send another message if they find
more states than before, or loadings of as many that the inputs make clearer.

A sensor that another unit reads as well, a valve that copies a flow next door, looks like noise to both. Units whose
own past predicts them better than their model does send a sketch of what their states leave of each sensor, a few sums
of many rows; those sensors become states that foretell each other, in rows that nothing was learned from, by more than
states cost, and nothing but they leaves their units then.
"""

import numpy as np

from ..message.requests import Ask, InputsOfOthers, OrderAnswer, RecordRequest, SensorsAsStates
from ..message.states import SensorStates, StateMessage, n_named
from ..statespace.episodes import first_part
from .tuning import TUNING


def with_inputs_of_others(messages, local_model):
    """A generator that tells inputs to units whose order is open; the answers after it."""
    told = {}
    for name, message in messages.items():
        others = [m.inputs for other, m in messages.items() if other != name and m.inputs is not None]
        if message.open_order and others:
            told[name] = InputsOfOthers(np.hstack(others))
    if not told:
        return messages
    answers = yield Ask(told, OrderAnswer, needed=0)
    grown = [name for name, answer in answers.items() if answer.grown]
    if not grown:
        return messages
    newer = yield Ask(dict.fromkeys(grown, RecordRequest(local_model=local_model)), StateMessage)
    return _followed(messages, newer)


def with_shared_sensors(messages):
    """A generator that makes sensors states of units that sent a sketch of what theirs leave; the answers after it.

    Of complete records, of whose states every row tells all.
    """
    sketches = {name: message.sketch for name, message in messages.items() if message.sketch is not None}
    parts = [message.information for message in messages.values()]
    is_plain = all(part.is_constant and part.determines_states for part in parts)
    n_sums = {len(sums) for sums in sketches.values()}
    if len(sketches) < 2 or len(n_sums) > 1 or not is_plain:
        return messages
    found = shared_sensors(sketches, {name: messages[name].z.shape[1] for name in sketches}, tuple(n_sums))
    if not found:
        return messages
    newer = yield Ask({name: SensorsAsStates(sensors) for name, sensors in found.items()}, SensorStates)
    for name in newer:
        newer[name] = newer[name].after(messages[name])
    return _followed(messages, newer)


def _followed(messages, newer):
    return messages.followed_by(newer) if hasattr(messages, "followed_by") else {**messages, **newer}


def shared_sensors(series, n_states, lengths):
    """Sensors of each unit that are worth a state each: what they tell of others' in a row, less what states cost.

    Parameters
    ----------
    series : dict of str to ndarray of shape (n_rows, n_sensors)
        What every unit leaves of its sensors, of unit variance: rows, or sums of them that stand for rows.
    n_states : dict of str to int
    lengths : tuple of int
        Of each stretch of these.

    Returns
    -------
    dict of str to list of int
        Of the units that have such sensors.
    """
    is_known, sizes = first_part(lengths), {name: Y.shape[1] for name, Y in series.items()}
    if len(series) < 2 or is_known.all():
        return {}
    both, unit = np.hstack(list(series.values())), np.repeat(list(sizes), list(sizes.values()))
    # a row and a column of a unit's transition matrix and a row of its noise for each, by BIC
    costs = np.array([1.5 * (n_states[name] + 1) for name in unit]) * np.log(len(both)) / len(both)
    room = {name: n_named(n_states[name], sizes[name]) for name in sizes}
    products = [Y.T @ Y / len(Y) for Y in (both[is_known], both[~is_known])]
    chosen = _worth_their_cost(products, unit, costs, room)
    found = {name: np.flatnonzero(np.isin(np.flatnonzero(unit == name), chosen)) for name in sizes}
    return {name: sensors for name, sensors in found.items() if len(sensors)}


def _worth_their_cost(products, unit, costs, room):
    """Columns taken one by one or in pairs, the best ones first, as long as they tell more than they cost."""
    size = np.sqrt(np.maximum(np.diag(products[0]), np.finfo(float).tiny))
    related = np.abs(products[0] / np.outer(size, size))
    shared = np.argwhere(
        np.triu((related > TUNING.orders_shared) & (related < TUNING.orders_copy) & (unit[:, None] != unit))
    )
    chosen: list[int] = []
    value = 0.0
    while True:
        more = [[k] for k in np.unique(shared) if k not in chosen]
        more += [pair for pair in shared.tolist() if not set(pair).intersection(chosen)]
        more = [new for new in more if all(np.sum(unit[chosen] == unit[k]) < room[unit[k]] for k in new)]
        tried = [_told(products, unit, chosen + new) - costs[chosen + new].sum() for new in more]
        if not tried or max(tried) <= value:
            return chosen
        best = int(np.argmax(tried))
        chosen, value = chosen + more[best], tried[best]


def _told(products, unit, columns):
    """Log-density that columns of several units gain from each other, per row that was not learned from."""
    known, judged = (each[np.ix_(columns, columns)] for each in products)
    own = unit[columns][:, None] == unit[columns]
    return _log_density(known, judged) - _log_density(np.where(own, known, 0.0), judged)


def _log_density(known, judged):
    """Of rows with products `judged`, but for a constant, under the covariance `known`."""
    S = known + TUNING.orders_least_left * np.eye(len(known))
    return -0.5 * (np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(S, judged)))
