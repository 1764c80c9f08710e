"""What can go wrong with a promise, by name."""


class PrivacyBudgetError(ValueError):
    """A release would cost more than the accountant allows; nothing was released."""


class SensitivityUnboundedError(ValueError):
    """One person's or one event's share in a release has no bound, so no noise can hide it."""


class PrivacyLeakWarning(UserWarning):
    """Something was taken from private data that had to be public: the promise does not hold."""


class SeededNoiseWarning(UserWarning):
    """Noise that anybody who knows the seed can subtract."""


class WeakPrivacyWarning(UserWarning):
    """A promise that holds but says little."""


class UtilityWarning(UserWarning):
    """The noise will leave nothing to be learned."""
