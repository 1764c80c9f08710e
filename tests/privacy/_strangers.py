"""Mechanisms as a stranger would write them, from the contract alone."""

import numpy as np

from skfedcausal.privacy import Bounds, Charge, PrivacyMechanism, Scope, UnitNoise


class LaplaceMechanism(PrivacyMechanism):
    """Laplace noise on rows clipped to a ball: epsilon-DP per event, other noise than the base has."""

    scope, law = Scope("event"), "laplace"

    def __init__(self, *, epsilon, clip_norm, delta=1e-6, accountant=None, random_state=None):
        self.epsilon, self.clip_norm, self.delta = epsilon, clip_norm, delta
        self.accountant, self.random_state = accountant, random_state

    def noise_of(self, name, Y):
        d = Y.shape[1]
        bounds = Bounds(np.zeros(d), np.ones(d), self.clip_norm, 2 * self.clip_norm)
        return self.noise_for(bounds, len(Y), self.epsilon / np.sqrt(2 * d))

    def draw(self, shape, std, rng):
        return rng.laplace(scale=std / np.sqrt(2), size=shape)

    def charge_of(self, name, noise, n_samples):
        ratio = self.sensitivity(noise, n_samples) / noise.std
        epsilon = ratio * np.sqrt(2 * len(noise.bounds.scale))
        return Charge(name, self.channel, self.law, epsilon=epsilon, noise_std=noise.std)


class RoundingMechanism(PrivacyMechanism):
    """Rounds measurements and adds Gaussian noise of a given size; what that promises is worked out."""

    def __init__(self, *, std, step, clip_norm, window=None, accountant=None, random_state=None):
        self.std, self.step, self.clip_norm, self.window = std, step, clip_norm, window
        self.accountant, self.random_state = accountant, random_state

    @property
    def scope(self):
        return Scope("event") if self.window is None else Scope("window", window=self.window)

    def noise_of(self, name, Y):
        d = Y.shape[1]
        return UnitNoise(Bounds(np.zeros(d), np.ones(d), self.clip_norm, 2 * self.clip_norm), self.std)

    def noised(self, Y, noise, rng, out=None):
        return super().noised(np.round(Y / self.step) * self.step, noise, rng, out)
