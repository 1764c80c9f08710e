"""Links that change are found, named and dated; nothing is reported of records in which nothing changed."""

import zlib

import numpy as np
import pandas as pd
import pytest

from benchmarks.links.changed import Plant
from skfedcausal import FederatedGrangerEstimator, GradientServer, inspection

COLUMNS = ["cause", "effect", "changed", "verdict", "p_value", "p_adjusted"]
COLUMNS += ["gain_before", "gain_after", "delay_before", "delay_after", "since"]


@pytest.fixture(scope="module")
def fitted():
    plant = Plant(np.random.default_rng(4), 3, (0.4, 0.5))
    return plant, FederatedGrangerEstimator().fit(plant.record((plant.A[None], 3000)))


@pytest.fixture
def learned(fitted, request):
    """The plant and its fit; records are drawn by the name of the test, whichever ran before."""
    plant, est = fitted
    plant.rng = np.random.default_rng([2, zlib.crc32(request.node.name.encode())])
    return plant, est


@pytest.mark.medium
@pytest.mark.parametrize("what", ["weaker", "lost", "new", "delayed"])
def test_a_change_is_named_and_dated(learned, what):
    plant, est = learned
    lags, pair = plant.changed(what)
    table = inspection.changed_links(est, plant.record((plant.A[None], 200), (lags, 500)))
    first = table.iloc[0]
    assert (first["cause"], first["effect"], first["verdict"], first["changed"]) == (*pair, what, True)
    assert table["changed"].sum() == 1
    assert abs(first["since"] - 200) < 100
    if what == "delayed":
        assert (first["delay_before"], first["delay_after"]) == (1, 4)
    elif what == "weaker":  # a tenth of its gain is about two standard errors
        assert first["gain_after"] / first["gain_before"] == pytest.approx(0.5, abs=0.15)


def test_nothing_changed(learned):
    plant, est = learned
    table = inspection.changed_links(est, plant.record((plant.A[None], 500)))
    assert list(table.columns) == COLUMNS
    assert len(table) == 9
    assert not table["changed"].any()
    assert table["since"].isna().all()
    assert set(table["verdict"]) <= {"unchanged", "cannot tell"}


def test_a_short_record_cannot_tell(learned):
    plant, est = learned
    table = inspection.changed_links(est, plant.record((plant.A[None], 25)))
    assert (table.query("cause != effect")["verdict"] == "cannot tell").any()


def test_noise_of_sensors_is_a_change_of_the_unit(learned):
    plant, est = learned
    Y = plant.record((plant.A[None], 400))
    Y["unit1"] = Y["unit1"] + 3 * np.random.default_rng(0).standard_normal(Y["unit1"].shape)
    first = inspection.changed_links(est, Y).iloc[0]
    assert (first["cause"], first["effect"], first["verdict"]) == ("unit1", "unit1", "stronger")


@pytest.mark.medium
def test_a_level_is_a_change_of_the_unit(learned):
    plant, est = learned
    Y = plant.record((plant.A[None], 400))
    Y["unit2"] = Y["unit2"].copy()
    Y["unit2"][200:] += 3 * plant.C[2] @ np.ones(2)
    changed = inspection.changed_links(est, Y).query("changed and cause == effect")
    assert "unit2" in set(changed["effect"])


@pytest.mark.medium
def test_dates_are_labels_and_rates_are_budgets(learned):
    plant, est = learned
    lags, _ = plant.changed("lost")
    Y = plant.record((plant.A[None], 200), (lags, 400))
    frame = pd.concat({name: pd.DataFrame(y) for name, y in Y.items()}, axis=1)
    frame.columns = [f"{unit}__s{k}" for unit, k in frame.columns]
    frame.index = pd.date_range("2026-01-01", periods=600, freq="h")
    told = inspection.changed_links(est, Y, false_alarm_rate=1 / 7200)
    level = -np.expm1(-600 / 7200)
    pd.testing.assert_frame_equal(told, inspection.changed_links(est, Y, alpha=level))
    named = inspection.changed_links(FederatedGrangerEstimator().fit(frame), frame, false_alarm_rate="1 per year")
    assert named["since"].dtype.kind == "M"


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"alpha": 2}, "alpha=2"), ({"false_alarm_rate": 3}, "rate=3"), ({"false_alarm_rate": "1 per day"}, "sampling")],
)
def test_levels_are_checked(learned, settings, words):
    plant, est = learned
    with pytest.raises(ValueError, match=words):
        inspection.changed_links(est, plant.record((plant.A[None], 60)), **settings)


def test_only_servers_that_test_links_are_asked():
    assert not hasattr(FederatedGrangerEstimator(server=GradientServer()), "changed_links")


@pytest.mark.parametrize("n_rows", [1, 2, 25])
def test_a_few_rows_do_not_tell_that_a_unit_is_unchanged(learned, n_rows):
    plant, est = learned
    table = inspection.changed_links(est, plant.record((plant.A[None], n_rows)))
    assert set(table["verdict"]) == {"cannot tell"}


def test_of_a_unit_that_was_not_seen_nothing_is_told(learned):
    plant, est = learned
    Y = plant.record((plant.A[None], 400))
    Y["unit1"] = np.full_like(Y["unit1"], np.nan)
    table = inspection.changed_links(est, Y)
    own = table.query("cause == effect").set_index("effect")
    assert own.loc["unit1", "verdict"] == "cannot tell"
    assert np.isnan(own.loc["unit1", "gain_after"])
    assert (own.loc[["unit0", "unit2"], "verdict"] == "unchanged").all()
    assert (table.query("effect == 'unit1'")["verdict"] == "cannot tell").all()
