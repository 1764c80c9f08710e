"""Table 3: bytes that cross against the server's loss, by the number of clients."""

from skfedcausal.datasets import make_nonlinear_plant

from ._setting import no_torch, trained

TITLE = "Third paper, Table 3: communication against loss"
TEXT = (
    "Chains of clients of two states, dynamics '{dynamics}', process noise {process_noise}, {n_train} "
    "nominal steps, {epochs} epochs of batches of 64, networks '{network}', one network f_s for all states, "
    "series in single precision. The paper's count is that of two vectors of two states in single precision "
    "from every client, upwards only. Ours sends the filtered states in the first epoch alone; what was "
    "measured includes headers, the message about the plant, losses, and the gradients down. The loss is in "
    "standardised states, summed over clients as in the paper and per state. A loss of the same size "
    "without any coupling is no evidence that an influence was learned."
)
PAPER = {2: (32, 0.0305), 4: (64, 0.0129), 8: (128, 0.0263), 16: (256, 0.0412)}
P = 2


def missing(s):
    """Why the table cannot be made here."""
    return no_torch(s)


def one(s, n_units, strength):
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
    detector = trained(s, plant.data, wire_dtype="float32")
    return detector.server_.loss_history_["server"].iloc[-1].sum(), detector.communication_


def figures(s):
    """Sections of the page."""
    rows, steps = [], s["n_train"] * s["epochs"]
    for n_units in s["clients"]:
        theirs, their_loss = PAPER[n_units]
        loss, sent = one(s, n_units, s["strength"])
        alone, _ = one(s, n_units, 0.0)
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
    return {"Communication and loss": rows}
