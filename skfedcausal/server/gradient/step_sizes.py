"""Step sizes of gradient training: as the user gave them, or as curvature allows."""

from dataclasses import dataclass, replace

import numpy as np

from ...message.training import TrainingPlan
from ...statespace.training.descent import safe_step

ONLINE_SHARE = 0.05  # of the largest safe step, so that single rows do not shake the per-step iterates
VARIANTS = {  # which of the client's step, the server's pull and the server's step are taken
    "joint": (1, 1, 1),
    "no_augmentation": (0, 0, 1),
    "no_server": (1, 0, 0),
    "pretrained": (1, 0, 1),
}


@dataclass(frozen=True)
class StepSizes:
    """Step sizes of all units and the weights that go with them.

    Attributes
    ----------
    client, server : ndarray of shape (n_units, 2)
        eta1, gamma1 and eta2, gamma2 of each unit.
    blocks : ndarray of shape (n_units, 2)
        gamma (alpha_A) and alpha_B of each unit's block row.
    xi, ridge : float
    warm_up : int
        Rounds by the augmented Lagrangian at the start.
    warm : StepSizes or None
        Step sizes meanwhile.
    """

    client: np.ndarray
    server: np.ndarray
    blocks: np.ndarray
    xi: float = 0.0
    ridge: float = 0.0
    warm_up: int = 0
    warm: object = None

    def plan(self, m, mode, **relayed):
        """What unit m is told."""
        warm = None if self.warm is None else self.warm.rates_of(m)
        return TrainingPlan(
            mode, self.rates_of(m), self.xi, self.ridge, warm_up=self.warm_up, warm_rates=warm, **relayed
        )

    def rates_of(self, m):
        """eta1, eta2, gamma1, gamma2 of unit m and the step size of its ``A_mn``."""
        pairs = self.client[m, 0], self.server[m, 0], self.client[m, 1], self.server[m, 1]
        return np.array([*pairs, self.blocks[m, 0]])

    def of_blocks(self, plant):
        """Step size of each element of ``[A, B]``, zero where it is not learned."""
        n = plant.states.n_states
        unit = plant.states.unit_of_state
        table = np.where(np.arange(n + plant.n_inputs) < n, self.blocks[unit, :1], self.blocks[unit, 1:])
        return table * plant.free


def choose_sizes(settings, plant, blocks=None):
    """Step sizes of all units, with those of a warm-up where the settings have one.

    Parameters
    ----------
    settings : GradientServer
    plant : Plant
    blocks : ndarray of shape (n_units, 2), default=None
        As in :func:`phase_sizes`.

    Returns
    -------
    StepSizes
    """
    if not settings.warm_up_rounds:
        return phase_sizes(settings, plant, blocks, settings.xi)
    warm = phase_sizes(settings, plant, blocks, 0.0)
    is_all = settings.constraint == "augmented_lagrangian"
    sizes = warm if is_all else phase_sizes(settings, plant, blocks, settings.xi)
    return replace(sizes, xi=settings.xi, warm_up=settings.warm_up_rounds, warm=warm)


def phase_sizes(settings, plant, blocks, xi):
    """Step sizes of all units in one phase of training.

    Parameters
    ----------
    settings : GradientServer
    plant : Plant
    blocks : ndarray of shape (n_units, 2), default=None
        Largest second derivatives of the server's loss in each unit's blocks of states and of inputs; None
        before they are known.
    xi : float
        Weight of the penalty as far as steps are explicit in it.

    Returns
    -------
    StepSizes
    """
    share = ONLINE_SHARE if settings.update == "online" and settings.solve == "iterate" else 1.0
    groups = 2 + plant.has_constant + (plant.n_inputs > 0)
    own, pulled, moved = VARIANTS[settings.variant]
    pairs = np.array([_unit_rates(settings, model, groups, share, xi) for model in plant.models])
    table = np.zeros((len(plant.names), 2))
    if blocks is not None:
        given = (settings.gamma if settings.alpha_A is None else settings.alpha_A, settings.alpha_B)
        for k, rate in enumerate(given):
            weight = 1 + xi * (k == 0)
            table[:, k] = [
                share * safe_step(weight * c, groups) if rate is None else rate for c in blocks[:, k]
            ]
    return StepSizes(own * pairs[:, :, 0], pulled * pairs[:, :, 1], moved * table, xi, settings.ridge)


def _unit_rates(settings, model, n_groups, share, xi):
    """Pairs eta1, eta2 and gamma1, gamma2 of one unit."""
    weight = settings.client_weight
    safe = [
        share * safe_step(weight * own + (1 + xi * (k == 0)) * pulled, n_groups)
        for k, (own, pulled) in enumerate(model.curvature.reshape(-1, 2))
    ]
    given = [(settings.eta1, settings.eta2), (settings.gamma1, settings.gamma2)]
    rates = []
    for (own, pulled), step in zip(given, [*safe, 0.0], strict=False):
        if pulled is None:
            pulled = step if own is None or weight == 0 else own / weight
        rates.append((weight * pulled if own is None else own, pulled))
    return rates


def block_curvature(plant, S):
    """Largest second derivatives in each unit's blocks from the second moments of all states and inputs."""
    n = plant.states.n_states
    table = np.zeros((len(plant.names), 2))
    for m in range(len(plant.names)):
        columns = plant.drivers[m]
        for k, part in enumerate((columns[columns < n], columns[columns >= n])):
            if len(part):
                table[m, k] = 2 * np.linalg.eigvalsh(S[np.ix_(part, part)])[-1]
    return table


def reach_curvature(plant):
    """The same of a single row, from the largest norms of the units' rows."""
    reach = np.array([model.reach for model in plant.models])
    return np.repeat(2 * (reach.sum() - reach)[:, None], 2, axis=1)


def load(plant, sizes, blocks):
    """Step size times curvature summed over all that moves, per unit; below two training converges."""
    if sizes.warm is not None:
        warm = load(plant, sizes.warm, blocks)
        if sizes.warm.client is sizes.client:  # no other phase follows
            return warm
        return np.maximum(warm, load(plant, replace(sizes, warm=None), blocks))
    curvature = np.array([model.curvature.reshape(-1, 2) for model in plant.models])
    k = curvature.shape[1]
    weight = 1 + sizes.xi * (np.arange(k) == 0)
    own = (sizes.client[:, :k] * curvature[:, :, 0]).sum(axis=1)
    pulled = (weight * sizes.server[:, :k] * curvature[:, :, 1]).sum(axis=1)
    return own + pulled + (sizes.blocks * blocks * np.array([1 + sizes.xi, 1.0])).sum(axis=1)
