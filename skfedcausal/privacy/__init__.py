"""Differential privacy: what is promised, what it costs, and who keeps the account."""

from .accountant import Charge, PrivacyAccountant, PrivacySpent, Scope
from .calibration import (
    epsilon_from_mu,
    epsilon_of,
    gaussian_noise_multiplier,
    mu_from_epsilon,
    randomized_response_composition,
)
from .errors import (
    PrivacyBudgetError,
    PrivacyLeakWarning,
    SeededNoiseWarning,
    SensitivityUnboundedError,
    UtilityWarning,
    WeakPrivacyWarning,
)
from .gaussian import GaussianMechanism
from .mechanism import PrivacyMechanism, Release
from .noise import Bounds, NoiseOptions, UnitNoise
from .randomized_response import IndependentFlips, RandomizedResponse
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
