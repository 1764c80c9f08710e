"""Step sizes of gradient training, as the user gave them or as curvature allows, and the steps they make."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...message.training import TrainingPlan
from ..numerics.descent import block_divisor, safe_step

ONLINE_SHARE = 0.05  # of the largest safe step, so that single rows do not shake the per-step iterates
VARIANTS = {  # which of the client's step, the server's pull and the server's step are taken
    "joint": (1, 1, 1),
    "no_augmentation": (0, 0, 1),
    "no_server": (1, 0, 0),
    "pretrained": (1, 0, 1),
}


@dataclass(frozen=True)
class StepSizes:
    """Step sizes of all units, arrays of shape (n_units, 2), and the weights that go with them."""

    client: np.ndarray  # eta1 and gamma1
    server: np.ndarray  # eta2 and gamma2
    blocks: np.ndarray  # gamma (alpha_A) and alpha_B
    xi: float = 0.0  # weight of the penalty
    ridge: float = 0.0
    warm_up: int = 0  # rounds by the augmented Lagrangian at the start
    warm: StepSizes | None = None  # step sizes meanwhile

    def plan(self, m, mode, **relayed):
        """Message of unit m's step sizes."""
        warm = None if self.warm is None else self.warm.rates_of(m)
        how = {"warm_up": self.warm_up, "warm_rates": warm, **relayed}
        return TrainingPlan(mode, self.rates_of(m), self.xi, self.ridge, **how)

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
    """Step sizes of all units for a GradientServer, given the `block_curvature` once it is known."""
    if not settings.warm_up_rounds:
        return _phase_sizes(settings, plant, blocks, settings.xi)
    warm = _phase_sizes(settings, plant, blocks, 0.0)
    is_all = settings.constraint == "augmented_lagrangian"
    sizes = warm if is_all else _phase_sizes(settings, plant, blocks, settings.xi)
    return replace(sizes, xi=settings.xi, warm_up=settings.warm_up_rounds, warm=warm)


def _phase_sizes(settings, plant, blocks, xi):
    """Step sizes in one phase of training, `xi` being the penalty as far as steps are explicit in it."""
    share = ONLINE_SHARE if settings.update == "online" and settings.solve == "iterate" else 1.0
    groups = 2 + plant.has_constant + (plant.n_inputs > 0)
    own, pulled, moved = VARIANTS[settings.variant]
    pairs = np.array([_unit_rates(settings, model, groups, share, xi) for model in plant.models])
    table = np.zeros((len(plant.names), 2))
    if blocks is not None:
        given = (settings.gamma if settings.alpha_A is None else settings.alpha_A, settings.alpha_B)
        for k, rate in enumerate(given):
            weight = 1 + xi * (k == 0)
            table[:, k] = [share * safe_step(weight * c, groups) if rate is None else rate for c in blocks[:, k]]
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
    """Largest second derivatives in each unit's blocks, (n_units, 2), from second moments S (n + k, n + k)."""
    n = plant.states.n_states
    table = np.zeros((len(plant.names), 2))
    for m, columns in enumerate(plant.drivers):
        for k, part in enumerate((columns[columns < n], columns[columns >= n])):
            if len(part):
                table[m, k] = 2 * np.linalg.eigvalsh(S[np.ix_(part, part)])[-1]
    return table


def reach_curvature(plant):
    """The same of a single row, (n_units, 2), from the largest norms of the units' rows."""
    reach = np.array([model.reach for model in plant.models])
    return np.repeat(2 * (reach.sum() - reach)[:, None], 2, axis=1)


def load(plant, sizes, blocks):
    """Step size times curvature summed over all that moves, (n_units,); below two training converges."""
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


class BlockSteps:
    """Steps of all block rows, explicit or implicit in the constraint; a warm-up needs S, the second moments."""

    def __init__(self, plant, sizes, S=None):
        self.sizes, self._dual = sizes, np.zeros(())
        self._rates, self._divide = sizes.of_blocks(plant), []
        if sizes.warm is None:
            return
        n = plant.states.n_states
        self._warm_rates = sizes.warm.of_blocks(plant)
        for m, (rows, columns) in enumerate(zip(plant.states.slices, plant.drivers, strict=True)):
            others = columns[columns < n]
            if len(others):
                moments, rate = S[np.ix_(others, others)], sizes.warm.blocks[m, 0]
                divide = block_divisor(moments, rate, sizes.xi, rows.stop - rows.start)
                self._divide.append((np.ix_(np.arange(rows.start, rows.stop), others), divide))

    def is_warm(self, k):
        """Whether the augmented Lagrangian leads round k."""
        return k < self.sizes.warm_up

    def pulled(self, k, constraint):
        """Penalty and multipliers times the constraint (n_rows, n) in round k, or None; xi is half of rho."""
        if not self.sizes.xi:
            return None
        penalty = 2 * self.sizes.xi * constraint
        if not self.is_warm(k):
            return penalty
        self._dual = self._dual + penalty if k else np.zeros_like(penalty)
        return penalty + self._dual

    def is_last_phase(self, k, max_iter):
        """Whether nothing but rounds of the same kind can follow round k."""
        return not self.is_warm(k) or self.sizes.warm_up >= max_iter

    def turn(self, k, slope, blocks):
        """Part that round k takes off the blocks, given the objective's derivative in them; all (n, n + k)."""
        rates = self._warm_rates if self.is_warm(k) else self._rates
        turn = rates * (slope + 2 * self.sizes.ridge * blocks)
        if self.is_warm(k):
            for place, divide in self._divide:
                turn[place] = divide(turn[place])
        return turn
