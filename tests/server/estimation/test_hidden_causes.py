"""Inputs that move with what they cannot have caused: found where a hidden cause is, not in loops of the own unit."""

from types import SimpleNamespace

import numpy as np
import pytest

from skfedcausal.server.estimation.input_checks import held_variances, hidden_cause_table, input_sums
from skfedcausal.server.joint import Standardised
from skfedcausal.statespace.matrices import Partition


def table_of(u, z, updates, starts=(0,)):
    partition = Partition([1, 1], [u.shape[1], 0])
    parts = [SimpleNamespace(z=column[:, None]) for column in z.T]
    known = Standardised((u - u.mean(axis=0)) / u.std(axis=0), np.ones(u.shape[1]))
    record = SimpleNamespace(
        partition=partition, standard_known=known, starts=starts, n_samples=len(u), names=("a", "b"), parts=parts
    )

    def of_rows(start, stop):
        return updates[start:stop]

    return hidden_cause_table(record, of_rows, input_sums(record, of_rows))


def draw(seed, kind, n_samples=1000):
    """White updates of two units, and an input of the first."""
    rng = np.random.default_rng(seed)
    updates, u = rng.standard_normal((n_samples, 2)), rng.standard_normal((n_samples, 1))
    z = updates.copy()
    if kind == "hidden":
        u[1:, 0] += 0.4 * updates[:-1, 1]
    if kind == "loop":  # what b does comes to a two rows later, and to the input through a's controller
        z[2:, 0] += updates[:-2, 1]
        u[:, 0] += 0.5 * z[:, 0]
    return u, z, updates


def test_an_input_that_follows_the_news_of_another_unit_is_suspect():
    table = table_of(*draw(0, "hidden"))
    assert table.columns.tolist() == ["input_of", "measured", "p_value", "p_adjusted", "suspect"]
    assert table[["input_of", "measured"]].to_numpy().tolist() == [["a", "b"]]
    assert table["suspect"].all()
    assert table["p_value"].item() < 1e-6


def test_what_came_through_measurements_of_the_own_unit_is_not():
    suspects = [table_of(*draw(seed, "loop"))["suspect"].item() for seed in range(20)]
    assert sum(suspects) <= 1  # each with a chance of 1 %


@pytest.mark.slow
def test_p_values_are_uniform_without_a_hidden_cause():
    p = np.array([table_of(*draw(seed, "none"))["p_value"].item() for seed in range(300)])
    for level in (0.1, 0.05):  # the combination is exact for small levels only
        assert abs((p < level).mean() - level) < 4 * np.sqrt(level * (1 - level) / len(p))


@pytest.mark.parametrize("starts", [(0, 400), (0, 1, 2, 500)])
def test_rows_of_different_episodes_are_not_compared(starts):
    u, z, updates = draw(1, "none")
    for start in starts[1:]:  # news of the last row of an episode and the first input of the next
        updates[start - 1, 1] = u[start, 0] = 1e3
    assert table_of(u, z, updates, starts)["p_value"].item() > 1e-3


def test_inputs_that_stay_vary_more_over_many_rows():
    rng = np.random.default_rng(0)
    u = np.column_stack([rng.standard_normal(40_000), np.repeat(rng.standard_normal(5_000), 8)])
    found = held_variances(u, (0, 20_000))
    # means of independent rows: 1; of 8 equal rows in the limit: 8; about 700 windows of 64 rows, 15 % of them
    np.testing.assert_allclose(found[:, 0], 1.0, rtol=0.25)
    assert found[0, 1] == pytest.approx(1.0, rel=0.1)
    assert found[-1, 1] == pytest.approx(8.0, rel=0.25)
    np.testing.assert_allclose(found[3, 0], np.convolve(u[:20_000, 0], np.ones(8), "valid").var() / 8, rtol=0.05)
    short = held_variances(u[:10], (0, 5))
    np.testing.assert_array_equal(short[3:], short[[2, 2, 2, 2]])
