"""Wrong arguments are refused in words: a part of the calls that ``python -m tests._fuzz`` makes."""

import numpy as np
import pytest

from tests import _fuzz


@pytest.mark.parametrize("kind", [kind for kind in _fuzz.KINDS if kind != "holes"])
def test_wrong_arguments_are_refused_in_words(kind):
    made = (_fuzz.outcome(_fuzz.KINDS[kind](np.random.default_rng([7, k]))) for k in range(60))
    unclear = [error for error in made if error is not None and not _fuzz.is_clear(error)]
    assert len(unclear) <= 1, unclear


@pytest.mark.slow
def test_records_of_holes_are_learned_or_refused_in_words():
    made = (_fuzz.outcome(_fuzz.holes_of(np.random.default_rng([7, k]))) for k in range(30))
    assert all(error is None or _fuzz.is_clear(error) for error in made)


def test_an_error_that_happens_is_unclear():
    assert not _fuzz.is_clear(_fuzz.outcome(lambda: 1 / 0))
    assert not _fuzz.is_clear(_fuzz.outcome(lambda: np.linalg.inv(np.zeros((2, 2)))))
    assert _fuzz.is_clear(_fuzz.outcome(lambda: _fuzz.UnitScaler().fit("valve")))
    assert _fuzz.outcome(lambda: None) is None
