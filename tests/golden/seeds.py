"""Draws that repeat: privacy noise comes from the operating system, here from a generator with a seed."""

import random
import secrets

import numpy as np

_numbers = random.Random(0)


def seed(name):
    """Let what is drawn without a seed depend on a name only, as the tests do."""
    secrets.randbits = _numbers.getrandbits
    _numbers.seed(name)
    np.random.seed(_numbers.getrandbits(32))  # noqa: NPY002  what is seeded asks for the global generator
