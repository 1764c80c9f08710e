"""Which statistic names the root."""

import numpy as np

from skfedcausal.server.watching.root_answers import Answer, deciding

STEADY = np.array([0.0, 1.0])
ANY = np.array([1.0, 0.0])


def test_a_steady_fault_that_explains_everything_needs_no_other_explanation():
    steady = Answer("shift", 30.0, STEADY, 0, explains=True)
    assert deciding([steady, Answer("energy", 200.0, ANY, 0)]) is steady


def test_one_that_leaves_something_unexplained_competes_by_its_evidence():
    steady, other = Answer("shift", 30.0, STEADY, 0), Answer("energy", 200.0, ANY, 0)
    assert deciding([steady, other]) is other


def test_no_fault_explains_nothing():
    """Where nothing moved a fault of no size leaves nothing unexplained either."""
    steady, other = Answer("shift", -3.0, STEADY, 0, explains=True), Answer("energy", 20.0, ANY, 0)
    assert deciding([steady, other]) is other
