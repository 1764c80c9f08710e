"""Table 3 and Figures 3 to 5: bytes that cross, noise on them, randomised flags, thresholds."""

from dataclasses import replace

import numpy as np

from skfedcausal import Communication
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.federation.exchange import InProcessTransport
from skfedcausal.message.training import GradientReply, PredictedStates

from ._setting import SETTING, both_flags, detection, no_torch, rca, records, residuals, scores, trained

TITLE = "Table 3 and Figures 3 to 5: communication, noise, randomised flags, thresholds"
TEXT = SETTING + (
    " Networks: '{network}', {epochs} epochs, plants {plants}. Table 3: {chains[n_train]} nominal steps, "
    "{chains[epochs]} epochs of batches of 64."
)
THRESHOLDS, RATES = "Thresholds (Figure 5)", "How often a flag is raised at the paper's percentile"
RANDOMISED, NOISE = "Randomised flags (Figure 4)", "Noise on what crosses while training (Figure 3)"
CROSSING = "Communication and loss"
NOTES = {
    THRESHOLDS: "The paper's delay grows exponentially with the threshold. With faults of its size every "
    "one is seen at once, at any threshold; weaker faults show the growth.",
    RANDOMISED: "Each flag is told as it is with the probability given, which is epsilon = log(p / (1 - "
    "p)) for that one flag of that one step.",
    NOISE: "On the filtered and predicted states, or on the gradients (states have a standard deviation of "
    "one). A client loss that does not react to noise does not need what crosses; it does not show that the "
    "noise protects anything.",
    CROSSING: "Table 3: chains of clients of two states, one network f_s for all states, series in single precision. "
    "The paper's count is that of two vectors of two states in single precision from every client, upwards only. Ours "
    "sends the filtered states in the first epoch alone; what was measured includes headers, the message about the "
    "plant, losses, and the gradients down. The loss is in standardised states, summed over clients as in the paper "
    "and per state. A loss of the same size without any coupling is no evidence that an influence was learned.",
}
PAPER = {2: (32, 0.0305), 4: (64, 0.0129), 8: (128, 0.0263), 16: (256, 0.0412)}
P = 2
CURVES = {
    "figure3": (NOISE, "", ["client loss", "server loss"], ("linear", "linear")),
    "figure4_p_a": ((RANDOMISED, "p_a"), "", ["precision", "recall", "F1"], ("linear", "linear")),
    "figure4_p_c": ((RANDOMISED, "p_c"), "", ["precision", "recall", "F1"], ("linear", "linear")),
    "figure5_weak": ((THRESHOLDS, "size 0.3,"), "percentile", ["ARL0", "delay", "gap"], ("linear", "log")),
    "figure5": ((THRESHOLDS, "size 2,"), "percentile", ["precision", "recall", "F1"], ("linear", "linear")),
}


def missing(s):
    """Why the figures cannot be made here."""
    return no_torch(s)


class NoisyTransport(InProcessTransport):
    """Adds Gaussian noise to the states that go up or the gradients that go down while training."""

    def __init__(self, workers, up, down):
        super().__init__(workers)
        self._up, self._down, self._rng = up, down, np.random.default_rng(0)

    def exchange(self, out, *, timeout=None):
        """Let every named worker answer its packet."""
        answers = super().exchange({k: self._noised(p, GradientReply.OP, self._down) for k, p in out.items()})
        return {k: self._noised(p, PredictedStates.OP, self._up) for k, p in answers.items()}

    def _noised(self, packet, op, sd):
        if packet.op != op or sd == 0:
            return packet
        arrays = {
            name: a + sd * self._rng.standard_normal(a.shape) if name in ("predicted", "filtered") else a
            for name, a in packet.arrays.items()
        }
        return replace(packet, arrays=arrays)


def noise_row(s, where, sd, train, nominal, test):
    """Losses and RCA after training with noise of a standard deviation in one direction."""
    level = {"up": sd, "down": 0.0} if where == "client to server" else {"up": 0.0, "down": sd}
    detector = trained(s, train, communication=Communication(transport=lambda sites: NoisyTransport(sites, **level)))
    losses = detector.server_.loss_history_.iloc[-1]
    both = both_flags(residuals(detector, nominal), residuals(detector, test.data), s["percentile"])
    told = {"": f"{where}, standard deviation {sd:g}"}
    told |= {"client loss": losses.client.mean(), "server loss": losses.server.mean()}
    return told | scores(rca(both[1], test))


def randomised(flags, kept_c, kept_a, rng):
    """Flags that are told as they are with the given probabilities, else turned around (Theorem 7.3)."""
    kept = np.array([kept_c, kept_a])
    return np.where(rng.random(flags.shape) < kept, flags, 1 - flags)


def flag_rows(s, both, test):
    """Table of randomised flags."""
    rng, rows = np.random.default_rng(0), []
    for which in ("p_c", "p_a"):
        for kept in s["kept"]:
            told = {"p_c": (kept, 1.0), "p_a": (1.0, kept)}[which]
            quiet, flags = (randomised(f, *told, rng) for f in both)
            rows.append({"": f"{which} = {kept:g}", **summary(quiet, flags, test)})
    return rows


def summary(quiet, flags, test):
    """Alarms by Z_a of any unit, roots by Table 1."""
    told = detection(quiet[:, :, 1].any(axis=1), flags[:, :, 1].any(axis=1), test.faults)
    return told | scores(rca(flags, test)) | scores(rca(flags, test, 5), ", horizon 5")


def rates(both, test):
    """Share of steps with a flag, at the root, at the other unit and without a fault."""
    shares = {
        "root": np.mean([both[1][i:j, int(u[-1])].mean(axis=0) for i, j, u in test.faults], axis=0),
        "other unit": np.mean([both[1][i:j, 1 - int(u[-1])].mean(axis=0) for i, j, u in test.faults], axis=0),
        "held-out nominal": both[0].mean(axis=(0, 1)),
    }
    return [{"": name, "Z_c": z[0], "Z_a": z[1]} for name, z in shares.items()]


def chain(s, n_units, strength):
    """Loss of the server, bytes, and weights of f_s of a chain of clients."""
    plant = make_nonlinear_plant(
        n_units,
        links=[(k, k + 1) for k in range(n_units - 1)],
        n_samples=s["n_train"],
        size=0,
        strength=strength,
        process_noise=s["process_noise"],
        sensor_noise=s["sensor_noise"],
        dynamics=s["dynamics"],
        random_state=1,
    )
    detector = trained(s, plant.data, communication=Communication(wire_dtype="float32"))
    return detector.server_.loss_history_["server"].iloc[-1].sum(), detector.communication_


def crossing(s):
    """Bytes that cross against the loss of the server, by the number of clients."""
    rows, steps = [], s["n_train"] * s["epochs"]
    for n_units in s["clients"]:
        theirs, their_loss = PAPER[n_units]
        loss, sent = chain(s, n_units, s["strength"])
        alone, _ = chain(s, n_units, 0.0)
        rows.append(
            {
                "": f"M = {n_units}",
                "paper: bytes per round": theirs,
                "paper: server loss": their_loss,
                "states of a step, single precision": n_units * 2 * P * 4,
                "measured up, per step and epoch": round(sent["bytes_up"] / steps, 1),
                "measured down": round(sent["bytes_down"] / steps, 1),
                "server loss": loss,
                "server loss per state": loss / (n_units * P),
                "the same plant without coupling": alone / (n_units * P),
            }
        )
    return rows


def figures(s):
    """Sections of the page."""
    (plant,) = s["plants"]
    train, nominal, test = records(s, plant)
    detector = trained(s, train)
    before, thresholds = residuals(detector, nominal), []
    for size in s["sizes"]:
        weaker = records(s, plant, size=size)[2]
        after = residuals(detector, weaker.data)
        for p in s["percentiles"]:
            told = summary(*both_flags(before, after, p), weaker)
            thresholds.append({"": f"size {size:g}, percentile {p:g}", "percentile": p, **told})
    both = both_flags(before, residuals(detector, test.data), s["percentile"])
    short = {name: Y[: s["n_noise"]] for name, Y in train.items()}
    noise = [
        noise_row(s, where, sd, short, nominal, test)
        for where in ("client to server", "server to client")
        for sd in s["noise"]
    ]
    return {
        THRESHOLDS: thresholds,
        RATES: rates(both, test),
        RANDOMISED: flag_rows(s, both, test),
        NOISE: noise,
        CROSSING: crossing(s | s["chains"]),
    }
