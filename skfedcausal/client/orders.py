"""What a unit's model may be once more is known: its states beside other units', and all rows in one place."""

import warnings
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from ..federation.exchange import InProcessTransport
from ..message.packet import PacketError
from ..message.states import MOST_SUMS, SensorStates, StateMessage, n_named
from ..statespace.episodes import episode_lengths, first_part
from ..statespace.observation import information, weights
from .kalman import EDGE_SHARE, dynamics, unit_states
from .moments import Moments, without_shifts
from .records import in_use
from .tuning import TUNING
from .unit_model import UnitClient

# A unit's number of states and its sensors once more, with what other units know of them.


def n_sketched(n_samples):
    """Sums in a sketch of a record; none of a short one."""
    n_sums = min(MOST_SUMS, n_samples // TUNING.orders_rows_a_sum)
    return n_sums if n_sums >= TUNING.orders_least_sums else 0


def client_with_inputs(unit, client, others):
    """The unit's model identified with inputs of others, without these; None if they tell it nothing.

    They do where it has more states for them, none too faint for a record of this length, or as many and
    measurements that follow them: what inputs move is then not taken for noise of the states when loadings and
    sensor noise are found. `others` has the shape (n_samples, n_inputs of other units).
    """
    n_own = 0 if unit.inputs is None else unit.inputs.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all of it was said of the first model
        known = unit.fitted(inputs=others if unit.inputs is None else np.hstack([unit.inputs, others]))
    model, before = known.model, client.model
    if model.n_states == before.n_states:
        is_worth = model.own_past.evidence() > before.own_past.evidence()
    else:
        seen = max(np.linalg.eigvalsh(model.C.T @ model.weights)[0], np.finfo(float).tiny)  # of the faintest state
        is_worth = model.n_states > before.n_states and 1 / seen < np.sqrt(len(unit.outputs)) / EDGE_SHARE
    if not is_worth:
        return None
    B, level = (model.B[:, :n_own], model.input_mean[:n_own]) if n_own else (None, None)
    return known.__replace__(model=replace(model, B=B, input_mean=level, own_past=before.own_past))


def sketch(client, Y, starts):
    """Sums of what states and the unit's own rows before leave of every sensor, of unit variance.

    What is added up has no memory of its own; of rows themselves, which follow each other smoothly, a few sums tell
    most.
    """
    model = client.model
    left, at = model.residual_model.left(in_use(client, Y), starts)
    scale = np.sqrt(np.maximum((left**2).mean(axis=0), np.finfo(float).tiny))
    found = np.zeros((len(Y), left.shape[1]))
    found[at] = left / scale
    return signed_sums(found, starts).astype(np.float16).astype(float)


def signed_sums(rows, starts):
    """Sums of rows with signs, over the roots of their numbers: as if they were rows of their own.

    The first ones are of the first part of every episode, the others of the rest. Which rows are added up, and with
    which signs, is the same for all units and asked for by nobody, so that no two sketches of a record tell more than
    one.
    """
    is_first, n_sums = first_part(episode_lengths(starts, len(rows))), n_sketched(len(rows))
    # a generator whose numbers stay what they are: the units of a plant have to draw the same
    random = np.random.RandomState(len(rows))
    rows = rows * random.choice([-1.0, 1.0], len(rows))[:, None]
    n_first = int(first_part((n_sums,)).sum())
    sums = []
    for at, count in ((np.flatnonzero(is_first), n_first), (np.flatnonzero(~is_first), n_sums - n_first)):
        for part in np.array_split(random.permutation(at), count):
            sums.append(rows[part].sum(axis=0) / np.sqrt(max(len(part), 1)))
    return np.array(sums)


def noiseless(client, Y, starts, U):
    """The unit's model with hardly any noise left in its states.

    For units whose own past predicts more than a model with independent noise of the sensors: what states leave of
    these is predicted by that past, and as noise of the states it would hide what foretells them.
    """
    return _with_loadings(client, Y, starts, U, client.model.C)


def client_with_sensors(client, Y, starts, U, sensors):
    """The unit's model with some sensors as states of their own, without noise to speak of."""
    model, sensors = client.model, np.unique(sensors)
    d, p = model.C.shape
    most = n_named(p, d)
    if not (0 < len(sensors) <= most and sensors[0] >= 0 and sensors[-1] < d):
        raise PacketError(
            f"It was asked to make its sensors {sensors.tolist()} states of their own; of {d} sensors {most} at most "
            "may be."
        )
    return _with_loadings(client, Y, starts, U, np.hstack([model.C, np.eye(d)[:, sensors]]))


def sensor_states(message, before, after, Y, sensors):
    """What a unit sends of a model with sensors as states, beyond its message by the model before."""
    kept, sensors = in_use(after, Y) - after.model.mean, np.unique(sensors)
    known = np.hstack([before.model.weights, np.eye(len(after.model.C))[:, sensors]])
    size = np.sqrt((known**2).sum(axis=0))
    mixed = np.linalg.lstsq(known / size, after.model.weights, rcond=None)[0].T / size
    return SensorStates.of(message, kept[:, sensors], mixed)


def _with_loadings(client, Y, starts, U, C):
    """The unit's model with states of unit variance in the space of C, which a row shows nearly without noise.

    Of the noise R of the sensors only what the scores ``J^-1 C' R^-1 y`` do not see stays as it is.
    """
    model, kept = client.model, in_use(client, Y)
    level = None if client.center else model.mean
    steady = kept if level is not None or U is not None else without_shifts(kept, starts)
    moments = Moments(steady, level, starts, U, model.input_mean)
    scale = moments.scale
    C, R = C / scale[:, None], (np.diag(model.R) if model.R.ndim == 1 else model.R) / np.outer(scale, scale)
    W = weights(C, R)
    N = np.linalg.inv(C.T @ W)
    scores = N @ W.T @ moments.G[0] @ W @ N
    change = C @ (TUNING.orders_noiseless * scores - N) @ C.T
    R = R + (change + change.T) / 2
    C = unit_states(moments, C, R)
    A, Q, B = dynamics(moments, C, R)
    C, R = C * scale[:, None], R * np.outer(scale, scale)
    found = replace(model, A=A, C=C, Q=Q, R=R, B=B, unpredicted=None, is_sharp=True)
    return client.__replace__(model=found, noise_share=None)


# The central machine that federation is measured against: all raw measurements in one place.


class PooledTransport(InProcessTransport):
    """Units in this process whose state messages are those of a machine that pools all their records."""

    def exchange(self, out, *, timeout=None):
        """Let every named worker answer, and put pooled statistics in place of their messages."""
        answers = super().exchange(out, timeout=timeout)
        if not all(answer.op == StateMessage.OP for answer in answers.values()):
            return answers
        sites = {name: self._sites[name] for name in out}
        pooled = pooled_messages(sites)
        for name, answer in answers.items():
            came = StateMessage.from_packet(answer)
            kept = {field: getattr(came, field) for field in ("rest", "open_order", "sketch", "wanders")}
            pooled[name] = replace(pooled[name], **kept)
        return {name: message.to_packet(out[name].round) for name, message in pooled.items()}


def pooled_messages(sites):
    """The units' statistics computed from one pooled table with one pooled observation model.

    `sites` are those of all units, with their fitted models; these only provide C, R and the level.
    """
    clients = {name: site.state["client"] for name, site in sites.items()}
    for name, client in clients.items():
        if not isinstance(client, UnitClient):
            raise TypeError(
                f"The client of unit {name!r} is a black box: without its C and R its raw measurements "
                "cannot be pooled, so there is no oracle to compare with."
            )
    workers = {name: site.worker.off_baseline(site.state) for name, site in sites.items()}
    models = [client.message_model for client in clients.values()]
    shown = [in_use(clients[name], worker.outputs) for name, worker in workers.items()]
    Y = np.concatenate(shown, axis=1)
    C = block_diag(*[model.C for model in models])
    mean = np.concatenate([model.mean for model in models])
    if all(model.R.ndim == 1 for model in models):
        R = np.concatenate([model.R for model in models])
    else:
        R = block_diag(*[np.diag(m.R) if m.R.ndim == 1 else m.R for m in models])
    info = information(Y - mean, C, R, with_const=True)
    messages, first = {}, 0
    for (name, worker), model in zip(workers.items(), models, strict=True):
        rows = slice(first, first + model.n_states)
        z, J = (np.ascontiguousarray(own) for own in (info.z[:, rows], info.patterns[:, rows, rows]))
        const = np.zeros(len(Y)) if first else info.const  # of the pooled table, counted once
        unpredicted = model.unpredicted_states() if info.is_constant else None
        about = info.index, episode_lengths(worker.starts, len(Y)), const, model.A, model.Q
        messages[name] = StateMessage(z, J, *about, unpredicted=unpredicted).with_inputs(worker.inputs, model.B)
        first = rows.stop
    return messages
