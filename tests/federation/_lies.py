"""Messages that units may send in place of honest ones, by name."""

from dataclasses import replace

import numpy as np

from skfedcausal.federation import InProcessTransport, Packet
from skfedcausal.message import StateMessage

RNG = np.random.default_rng(5)


def _scaled(name, factor):
    return lambda m: replace(m, **{name: getattr(m, name) * factor})


def _one(value, column=0):
    def lie(m):
        z = m.z.copy()
        z[17, column] = value
        return replace(m, z=z)

    return lie


def _states(p, kind):
    def lie(m):
        T = len(m.z)
        z = RNG.normal(size=(T, p)) if kind == "noise" else np.cumsum(RNG.normal(size=(T, p)), axis=0)
        return StateMessage(z, np.eye(p)[None], lengths=m.lengths, off_subspace=m.off_subspace)

    return lie


def _raw(**arrays):
    """What no message can hold: arrays of the packet itself."""

    def lie(packet):
        changed = {name: make(packet.arrays) for name, make in arrays.items()}
        return Packet(packet.op, packet.round, {**packet.arrays, **changed}, packet.scalars)

    return lie


def _rows(change):
    def lie(m):
        T = len(m.z) + change
        rows = np.arange(T) % len(m.z)
        return replace(m.at(rows, (T,)))

    return lie


def _nan(arrays):
    z = arrays["z"].copy()
    z[3, 0] = np.nan
    return z


def _rank_one(m):
    p = m.z.shape[1]
    v = np.arange(1.0, p + 1)
    return replace(m, patterns=np.outer(v, v)[None]) if p > 1 else replace(m, patterns=np.zeros((1, 1, 1)))


# messages that are well-formed
CONTENT = {
    "nothing but zeros": lambda m: replace(m, z=np.zeros_like(m.z)),
    "a constant": lambda m: replace(m, z=np.full_like(m.z, 3.0)),
    "stuck at its first row": lambda m: replace(m, z=np.repeat(m.z[:1], len(m.z), axis=0)),
    "far too small": _scaled("z", 1e-300),
    "much too small": _scaled("z", 1e-4),
    "far too large": _scaled("z", 1e150),
    "beyond all numbers": _scaled("z", 1e300),
    "precise beyond all numbers": _scaled("patterns", 1e300),
    "much too precise": _scaled("patterns", 1e12),
    "of no precision": lambda m: replace(m, patterns=np.zeros_like(m.patterns)),
    "of hardly any precision": _scaled("patterns", 1e-300),
    "of a precision of rank one": _rank_one,
    "one number of 1e300": _one(1e300),
    "one number of 1e30": _one(1e30),
    "one number of -1e12": _one(-1e12),
    "one row less": _rows(-1),
    "one row more": _rows(1),
    "half the rows": lambda m: m.at(slice(0, len(m.z) // 2), (len(m.z) // 2,)),
    "one row": lambda m: m.at(slice(0, 1), (1,)),
    "other episodes": lambda m: replace(m, lengths=(100, len(m.z) - 100)),
    "an episode for every row": lambda m: replace(m, lengths=(1,) * len(m.z)),
    "inputs unasked": lambda m: replace(m, inputs=RNG.normal(size=(len(m.z), 1))),
    "too many inputs": lambda m: replace(m, inputs=RNG.normal(size=(len(m.z), 5))),
    "a constant input": lambda m: replace(m, inputs=np.ones((len(m.z), 2))),
    "the rest of the density unasked": lambda m: replace(m, const=np.full(len(m.z), 1e300)),
    "a model unasked": lambda m: replace(m, transition=1e9 * np.eye(m.z.shape[1]), process_cov=np.eye(m.z.shape[1])),
    "17 states": _states(17, "noise"),
    "16 states of noise": _states(16, "noise"),
    "33 states that drift": _states(33, "drift"),
    "as many precisions as rows, and one more": lambda m: replace(
        m,
        patterns=np.repeat(m.patterns[:1], len(m.z) + 1, axis=0),
        index=np.zeros(len(m.z), dtype=int),
    ),
}


def _stuck_half(m):
    z = m.z.copy()
    z[:, : max(z.shape[1] // 2, 1)] = z[0, : max(z.shape[1] // 2, 1)]
    return replace(m, z=z)


# of messages that a plant is learned from; in those that are asked about later a fault may do it
CONTENT_LEARNED = {
    "half of the states stuck": _stuck_half,
    "two states that are one": lambda m: replace(m, z=m.z[:, [0, 0, *range(2, m.z.shape[1])]]),
}
# what sparse tags and large upsets look like, too
ODD = {
    "nearly all values zero": lambda m: replace(m, z=m.z * (np.random.default_rng(1).random(m.z.shape) > 0.995)),
    "rows of any size": lambda m: replace(m, z=m.z * np.random.default_rng(2).standard_cauchy((len(m.z), 1))),
}
# packets that are no messages
PACKETS = {
    "NaN": _raw(z=_nan),
    "infinite": _raw(z=lambda a: np.full_like(a["z"], np.inf)),
    "an infinite precision": _raw(patterns=lambda a: np.full_like(a["patterns"], np.inf)),
    "indefinite": _raw(patterns=lambda a: -a["patterns"]),
    "lengths that do not add up": _raw(lengths=lambda a: np.array([7, 5])),
    "lengths below one": _raw(lengths=lambda a: np.array([len(a["z"]) + 1, -1])),
    "no lengths": _raw(lengths=lambda a: np.zeros(0, dtype=int)),
    "further arrays": _raw(readings=lambda a: np.ones(3)),
    "one dimension": _raw(z=lambda a: a["z"].ravel()),
    "three dimensions": _raw(z=lambda a: a["z"][None]),
    "whole numbers": _raw(z=lambda a: a["z"].astype(int)),
    "no rows": _raw(z=lambda a: a["z"][:0], lengths=lambda a: np.zeros(0, dtype=int)),
    "no states": _raw(z=lambda a: a["z"][:, :0]),
    "another operation": lambda p: Packet("done", p.round, {}),
    "another round": lambda p: Packet(p.op, p.round + 1, p.arrays, p.scalars),
    "no packet": lambda p: "nonsense",
    "nothing": lambda p: None,
}
LIES = [*CONTENT, *PACKETS]


class Lying(InProcessTransport):
    """A transport that a unit lies over, in answers to one operation."""

    def __init__(self, workers, lie, op, unit="unit1"):
        super().__init__(workers)
        self._lie, self._op, self._unit = lie, op, unit

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        packet = out.get(self._unit)
        answer = answers.get(self._unit)
        if packet is not None and packet.op == self._op and answer.op == StateMessage.OP:
            answers[self._unit] = told(self._lie, answer)
        return answers


def told(lie, packet):
    """A packet with the lie in it."""
    if lie in PACKETS:
        return PACKETS[lie](packet)
    return (CONTENT | CONTENT_LEARNED | ODD)[lie](StateMessage.from_packet(packet)).to_packet(packet.round)
