"""Differential privacy: what is promised, what it costs, and who keeps the account."""

from .accountant import Charge, PrivacyAccountant, PrivacySpent, Scope
from .calibration import (
    Bounds,
    NoiseOptions,
    PrivacyBudgetError,
    PrivacyLeakWarning,
    SeededNoiseWarning,
    SensitivityUnboundedError,
    UnitNoise,
    UtilityWarning,
    WeakPrivacyWarning,
    epsilon_from_mu,
    epsilon_of,
    gaussian_noise_multiplier,
    mu_from_epsilon,
    randomized_response_composition,
)
from .mechanism import GaussianMechanism, IndependentFlips, PrivacyMechanism, RandomizedResponse, Release
from .sensitivity import (
    augmented_message_sensitivity,
    client_sensitivity,
    event_sensitivity,
    residual_sensitivity,
    server_gradient_sensitivity,
    window_sensitivity,
)
from .site_account import SiteAccount

__all__ = [
    "Bounds", "Charge", "GaussianMechanism", "IndependentFlips", "NoiseOptions", "PrivacyAccountant",
    "PrivacyBudgetError",
    "PrivacyLeakWarning", "PrivacyMechanism", "PrivacySpent", "RandomizedResponse", "Release", "Scope",
    "SeededNoiseWarning", "SensitivityUnboundedError", "SiteAccount", "UnitNoise", "UtilityWarning",
    "WeakPrivacyWarning", "augmented_message_sensitivity", "client_sensitivity", "epsilon_from_mu", "epsilon_of",
    "event_sensitivity", "gaussian_noise_multiplier", "mu_from_epsilon", "randomized_response_composition",
    "residual_sensitivity", "server_gradient_sensitivity", "window_sensitivity",
]  # fmt: skip
