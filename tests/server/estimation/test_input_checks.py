"""Which inputs can be told apart, how well they are excited, and whether they follow the measurements."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skfedcausal.server.estimation.input_checks import (
    InputsNotSeparableError,
    check_independent,
    controlled_units,
    excitation_table,
    feedback_table,
)
from skfedcausal.server.joint import Standardised
from skfedcausal.statespace.episodes import episodes
from skfedcausal.statespace.matrices import Partition

N_LAGS = 5


def null_of(*directions):
    """Identity less the share of each direction in it."""
    return np.eye(len(directions[0][0])) - sum(share * np.outer(v, v) / (v @ v) for v, share in directions)


def test_inputs_that_repeat_each_other_are_named_and_others_are_not():
    pair, rest = np.array([1.0, 1.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, 1.0, -2.0])
    with pytest.raises(InputsNotSeparableError, match=r"inputs number 0, number 1, number 3, number 4 are") as caught:
        check_independent(null_of((pair, 1.0), (rest, 1 - 5e-11)))
    assert caught.value.inputs == [0, 1, 3, 4]
    check_independent(np.eye(3))


def test_an_input_is_redundant_where_the_others_leave_less_than_1e_minus_10_of_it():
    check_independent(null_of((np.ones(2), 1 - 1.2e-10)))
    with pytest.raises(InputsNotSeparableError):
        check_independent(null_of((np.ones(2), 1 - 0.8e-10)))


def test_inputs_with_a_weight_below_a_ten_thousandth_are_not_involved():
    with pytest.raises(InputsNotSeparableError) as caught:
        check_independent(null_of((np.array([1.0, 1e-6, 1.2e-4, 0.8e-4]), 1.0)))
    assert caught.value.inputs == [0, 2]


# --- excitation -------------------------------------------------------------------------------------


def orders_of(u, starts=(0,)):
    record = SimpleNamespace(standard_known=Standardised(u, np.arange(1.0, 1 + u.shape[1])), starts=starts)
    return excitation_table(record, np.eye(u.shape[1]))["order"].tolist()


@pytest.mark.parametrize(("lengths", "expected"), [((60, 42), 20), ((39, 60), 19), ((60, 3), 1), ((1, 60), 1)])
def test_orders_are_looked_for_up_to_twenty_steps_or_half_the_shortest_episode(lengths, expected):
    u = np.random.default_rng(0).standard_normal((sum(lengths), 1))
    assert orders_of(u, (0, lengths[0])) == [expected]


def test_every_sine_excites_two_orders_and_inputs_that_vary_at_random_all():
    t = np.arange(300.0)
    u = np.column_stack([np.cos(t), 7 * np.cos(t) + np.sin(2 * t), np.random.default_rng(0).standard_normal(300)])
    assert orders_of(u) == [2, 4, 20]
    # a step of phase from one episode to the next is no excitation
    assert orders_of(np.cos(t + (t >= 150))[:, None], (0, 150)) == [2]


def test_an_order_counts_from_a_millionth_of_the_variance():
    """A quarter of a cycle a row: a row is less the one two rows before, up to the noise of both.

    Of the variance 1/2 of a cosine that is ``2 noise**2 / (1/2)``.
    """
    t, noise = np.arange(6000), np.random.default_rng(0).standard_normal(6000)
    u = [np.cos(np.pi / 2 * t) + np.sqrt(share / 4) * noise for share in (0.75e-6, 1.4e-6)]
    weak, strong = orders_of(np.column_stack(u))
    assert weak == 2 < strong


def test_long_records_are_looked_at_in_windows_all_over_them():
    """Ten thousand rows are 5000 windows of every other row; inputs that move late in the record count."""
    n_samples = 10_000
    u = np.zeros((n_samples, 2))
    u[-100:] = np.random.default_rng(0).standard_normal((100, 2))
    u[:, 1] = np.repeat(np.random.default_rng(1).standard_normal(n_samples // 2), 2)
    assert orders_of(u[:, :1]) == [20]
    # windows from even rows on see both rows of a pair, so that the second tells nothing new
    assert orders_of(u[:, 1:]) == [1]
    assert orders_of(u[:-2, 1:]) == [20]


def test_the_share_of_an_input_is_what_states_and_other_inputs_do_not_explain():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 5))
    regressors = x.T @ x
    u = rng.standard_normal((50, 2))
    table = excitation_table(
        SimpleNamespace(standard_known=Standardised(u, np.array([3.0, 4.0])), starts=(0,)), regressors
    )
    expected = []
    for k in (3, 4):
        others = np.delete(x, k, axis=1)
        rest = x[:, k] - others @ np.linalg.lstsq(others, x[:, k], rcond=None)[0]
        expected.append(rest @ rest / (x[:, k] @ x[:, k]))
    np.testing.assert_allclose(table["share"], expected, rtol=1e-8)
    assert table["std"].tolist() == [3.0, 4.0]


# --- feedback ---------------------------------------------------------------------------------------


def feedback_of(u, updates, partition, starts=(0,)):
    names = [f"unit{k}" for k in range(partition.n_units)]
    known = Standardised(u, np.ones(u.shape[1]))
    record = SimpleNamespace(partition=partition, standard_known=known, starts=starts, n_samples=len(u), names=names)
    return feedback_table(record, lambda start, stop: updates[start:stop])


def without_own_past(u, starts):
    """Inputs less their regression on rows before: 20, or a fourth of the rows for each input; at least 5."""
    n_samples, k = u.shape
    n_past = min(max(n_samples // (4 * k), N_LAGS), 20)
    past = np.zeros((n_samples, n_past * k))
    G = np.zeros((n_past + 1, k, k))
    for start, stop in episodes(starts, n_samples):
        for lag in range(min(n_past + 1, stop - start)):
            G[lag] += u[start + lag : stop].T @ u[start : stop - lag]
            if lag:
                past[start + lag : stop, (lag - 1) * k : lag * k] = u[start : stop - lag]
    rows = range(n_past)
    moments = np.block([[G[j - i] if j >= i else G[i - j].T for j in rows] for i in rows])
    return u - past @ np.linalg.solve(moments, np.hstack(list(G[1:])).T)


@pytest.mark.parametrize("starts", [(0,), (0, 513, 516, 517, 1029)])
def test_statistics_of_feedback_are_those_of_whole_series(starts):
    """Episodes of a piece of 512 rows, of one more, of three rows and of one; units without inputs have no row."""
    rng, n_samples = np.random.default_rng(0), 1200
    u = rng.standard_normal((n_samples, 3))
    u[1:] += 0.5 * u[:-1]
    updates = rng.standard_normal((n_samples, 4))
    updates[:, 1] = 2 * updates[:, 0]  # two states that move together are one
    updates[:-2, 2] += 0.2 * u[2:, 0]
    partition = Partition((2, 1, 1), (1, 0, 2))
    table = feedback_of(u, updates, partition, starts)
    rest, expected = without_own_past(u, starts), []
    for controlled in (0, 2):
        for measured in range(3):
            left = rest[:, partition.input_slices[controlled]]
            seen = updates[:, partition.slices[measured]]
            row = [f"unit{measured}", f"unit{controlled}"]
            for lags in (range(1, N_LAGS), range(1), range(-N_LAGS, 0)):  # rows by which the input comes later
                total = 0.0
                for lag in lags:
                    C = sum(
                        left[max(a + lag, a) : min(b + lag, b)].T @ seen[max(a, a - lag) : min(b, b - lag)]
                        for a, b in episodes(starts, n_samples)
                        if b - a > abs(lag)
                    )
                    inverse = np.linalg.pinv(seen.T @ seen, rcond=1e-9)
                    total += np.trace(np.linalg.solve(left.T @ left, C) @ inverse @ C.T)
                rank = np.linalg.matrix_rank(seen.T @ seen, rtol=1e-9)
                row += [n_samples * total, stats.chi2.sf(n_samples * total, len(lags) * left.shape[1] * rank)]
            expected.append((*row[:4], min(6 * row[3], 1.0), *row[4:]))
    columns = ["measured", "controlled", "statistic", "p_value", "p_adjusted", "same_row_statistic"]
    columns += ["same_row_p_value", "misfit_statistic", "misfit_p_value"]
    pd.testing.assert_frame_equal(table, pd.DataFrame(expected, columns=columns), rtol=1e-8)
    assert table["p_adjusted"].iloc[1] < 1e-6  # of unit 1 on the inputs of unit 0


@pytest.mark.parametrize(("share", "rank"), [(0.8e-9, 1), (1.2e-9, 2)])
def test_directions_of_updates_count_from_a_billionth_of_the_largest(share, rank):
    """Of large updates, so that a direction that is left out by half would show."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((100, 2)))[0]
    u, size = rng.standard_normal((100, 1)), 1e9 * np.array([1.0, np.sqrt(share)])
    table = feedback_of(u, directions * size, Partition((2,), (1,)))
    rest = without_own_past(u, (0,))
    explained = sum(((rest[lag:].T @ directions[: 100 - lag, :rank]) ** 2).sum() for lag in range(1, N_LAGS))
    statistic = 100 * explained / (rest.T @ rest).item()
    assert table["statistic"][0] == pytest.approx(statistic, rel=1e-5)
    assert table["p_value"][0] == pytest.approx(stats.chi2.sf(statistic, rank * (N_LAGS - 1)), rel=1e-4)


def test_updates_of_nothing_say_nothing():
    table = feedback_of(np.random.default_rng(0).standard_normal((100, 1)), np.zeros((100, 1)), Partition((1,), (1,)))
    assert table["statistic"].tolist() == [0.0]


def test_units_are_controlled_where_a_test_rejects_at_a_thousandth():
    table = pd.DataFrame({"controlled": ["a", "a", "b", "c"], "p_adjusted": [0.5, 0.9e-3, 1e-3, 1.1e-3]})
    assert controlled_units(table, ("d", "c", "b", "a")) == ("a",)
