"""The example in a docstring prints what it says."""

import doctest

from skfedcausal.datasets import _plants


def test_generator_example():
    results = doctest.testmod(_plants)
    assert results.attempted > 0
    assert results.failed == 0
