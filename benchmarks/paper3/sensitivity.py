"""Figures 3, 4 and 5: noise on what crosses, randomised flags, thresholds.

Run ``python -m benchmarks.paper3.sensitivity``.
"""

import warnings
from dataclasses import replace

import numpy as np

from skfedcausal.federation.transport import InProcessTransport
from skfedcausal.message import GradientReply, PredictedStates
from skfedcausal.metrics import alarm_report

from .._report import table, write
from ._setting import SETTING, both_flags, rca, records, residuals, trained

EPOCHS = 4
NOISE = (0.0, 1.0, 10.0)
KEPT = (1.0, 0.99, 0.95, 0.9, 0.8)
PERCENTILES = (75.0, 85.0, 90.0, 95.0, 97.5, 99.0, 99.9)


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


def noise_row(where, sd, train, nominal, test):
    """Losses and RCA after training with noise of a standard deviation in one direction."""
    level = {"up": sd, "down": 0.0} if where == "client to server" else {"up": 0.0, "down": sd}
    detector = trained(train, epochs=EPOCHS, transport=lambda sites: NoisyTransport(sites, **level))
    losses = detector.server_.loss_history_.iloc[-1]
    both = both_flags(residuals(detector, nominal), residuals(detector, test.data), 95.0)
    return {
        "noise": where,
        "standard deviation": sd,
        "client loss": f"{losses.client.mean():.3f}",
        "server loss": f"{losses.server.mean():.3f}",
        "P / R / F1": " / ".join(f"{x:.2f}" for x in rca(both[1], test)),
    }


def randomised(flags, kept_c, kept_a, rng):
    """Flags that are told as they are with the given probabilities, else turned around (Theorem 7.3)."""
    kept = np.array([kept_c, kept_a])
    return np.where(rng.random(flags.shape) < kept, flags, 1 - flags)


def flag_rows(both, test):
    """Table of randomised flags."""
    rng, rows = np.random.default_rng(0), []
    for which in ("p_c", "p_a"):
        for kept in KEPT:
            told = {"p_c": (kept, 1.0), "p_a": (1.0, kept)}[which]
            quiet, flags = (randomised(f, *told, rng) for f in both)
            rows.append({"randomised": which, "kept with probability": kept, **summary(quiet, flags, test)})
    return rows


def summary(quiet, flags, test):
    """Alarms by Z_a of any unit, roots by Table 1."""
    report = alarm_report(flags[:, :, 1].any(axis=1), test.faults)
    return {
        "ARL0": f"{alarm_report(quiet[:, :, 1].any(axis=1), [])['arl0']:.1f}",
        "detected": f"{report['detected']:.2f}",
        "delay": f"{report['delay']:.2f}",
        "gap": f"{report['gap']:.0f}",
        "P / R / F1": " / ".join(f"{x:.2f}" for x in rca(flags, test)),
        "P / R / F1, horizon 5": " / ".join(f"{x:.2f}" for x in rca(flags, test, 5)),
    }


def main():
    """Print and write the tables."""
    warnings.simplefilter("ignore", UserWarning)
    train, nominal, test = records(0, process_noise=0.3)
    detector = trained(train, epochs=EPOCHS)
    before, after = residuals(detector, nominal), residuals(detector, test.data)
    both = both_flags(before, after, 95.0)
    shares = {
        "root": np.mean([both[1][i:j, int(u[-1])].mean(axis=0) for i, j, u in test.faults], axis=0),
        "other unit": np.mean([both[1][i:j, 1 - int(u[-1])].mean(axis=0) for i, j, u in test.faults], axis=0),
        "held-out nominal": both[0].mean(axis=(0, 1)),
    }
    rates = [{"": k, "Z_c": f"{z[0]:.2f}", "Z_a": f"{z[1]:.2f}"} for k, z in shares.items()]
    thresholds = [{"percentile": p, **summary(*both_flags(before, after, p), test)} for p in PERCENTILES]
    print(table(thresholds), flush=True)
    short = {k: Y[:2000] for k, Y in train.items()}
    noise = [
        noise_row(where, sd, short, nominal, test) for where in ("client to server", "server to client") for sd in NOISE
    ]
    write(
        "paper3/sensitivity",
        "Third paper, Figures 3 to 5: noise, randomised flags, thresholds",
        SETTING + f" Process noise 0.3, tanh layers, {EPOCHS} epochs.",
        "## Thresholds (Figure 5)\n\n" + table(thresholds),
        "## How often a flag is raised (95th percentile)\n\n" + table(rates),
        "## Randomised flags (Figure 4)\n\nEach flag is told as it is with the probability given, which is "
        "epsilon = log(p / (1 - p)) for that one flag of that one step.\n\n" + table(flag_rows(both, test)),
        "## Noise on what crosses while training (Figure 3)\n\nOn the filtered and predicted states, or on "
        "the gradients (states have a standard deviation of one); 2000 steps. A client loss that does not "
        "react to noise does not need what crosses; it does not show that the noise protects anything.\n\n"
        + table(noise),
    )


if __name__ == "__main__":
    main()
