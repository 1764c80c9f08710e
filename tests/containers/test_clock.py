"""One idea of time: every door reads every kind of index as a clock, and looks at it in the same way."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    PlantTable,
    UnitScaler,
    check_plant,
)
from skfedcausal.containers import read_plant
from skfedcausal.containers.rows import read_clock
from skfedcausal.datasets import make_granger_plant

N = 400
START = pd.date_range("2026-03-01", periods=N, freq="1min")
KINDS = {
    "numbers from 0": pd.RangeIndex(N),
    "numbers": pd.Index(np.arange(N) + 7000),
    "seconds since 1970": pd.Index(np.arange(N) * 60 + 1_767_225_600),
    "milliseconds since 1970": pd.Index(np.arange(N) * 60_000 + 1_767_225_600_000),
    "hours": pd.Index(np.arange(N) / 60),
    "times": START,
    "times of a zone": START.tz_localize("Europe/Berlin"),
    "periods": START.to_period("min"),
    "spans": START - START[0],
    "texts": pd.Index(START.strftime("%d.%m.%Y %H:%M:%S")),
    "datetimes": pd.Index([time.to_pydatetime() for time in START], dtype=object),
    "dates": pd.Index([(START[0] + pd.Timedelta(days=k)).date() for k in range(N)], dtype=object),
    "timestamps": pd.Index(list(START), dtype=object),
    "site and time": pd.MultiIndex.from_product([["north"], START]),
}


@pytest.fixture(scope="module")
def plant():
    X, _ = make_granger_plant(
        2, names=["P1", "P2"], n_samples=N, n_sensors=2, n_inputs=1, container="frame", random_state=0
    )
    return X


@pytest.fixture(scope="module")
def fitted(plant):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = [name for name in plant if "__u" in name]
        return {
            "granger": FederatedGrangerEstimator().fit(plant),
            "detector": FederatedRCADetector().fit(plant),
            "whatif": FederatedCounterfactualEstimator(input_columns=inputs).fit(plant),
        }


DOORS = {
    "fit": lambda X, fitted: FederatedGrangerEstimator().fit(X),
    "predict": lambda X, fitted: fitted["detector"].predict(X),
    "incidents": lambda X, fitted: fitted["detector"].incidents(X),
    "update": lambda X, fitted: [fitted["detector"].update(part) for part in (X[:200], X[200:])],
    "whatif": lambda X, fitted: fitted["whatif"].whatif(X, {"P1__u0": 1.0}),
    "check_plant": lambda X, fitted: check_plant(X),
    "PlantTable": lambda X, fitted: PlantTable.read(X),
    "dict of frames": lambda X, fitted: FederatedGrangerEstimator().fit(_apart(X)),
    "partial_fit": lambda X, fitted: FederatedGrangerEstimator().partial_fit(X),
}


def _apart(X):
    return {unit: X.filter(like=f"{unit}__") for unit in ("P1", "P2")}


def _told(door, X, fitted):
    """Words of a refusal, of warnings or of the answer; None where nothing was said."""
    fitted["detector"].reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = DOORS[door](X, fitted)
        except ValueError as error:
            return next(text for text in [str(error)] if "backwards" in text or "already" in text)
    said = [str(one.message) for one in caught] + list(getattr(answer, "said", ()))
    said += list(answer.findings.detail) if door == "check_plant" else []
    return next((text for text in said if "order" in text), None)


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS)
def test_rows_that_run_backwards_or_in_no_order_are_named(door, kind, plant, fitted):
    X = plant.set_axis(KINDS[kind])
    for wrong in (X.iloc[::-1], X.sample(frac=1.0, random_state=0)):
        assert _told(door, wrong, fitted) is not None
    assert _told(door, X, fitted) is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "dates"])
def test_a_hole_is_named_and_cut_whatever_the_kind_of_clock(kind, plant):
    X = plant.set_axis(KINDS[kind])
    holed = pd.concat([X.iloc[:150], X.iloc[300:]])
    with pytest.warns(UserWarning, match="no rows between"):
        FederatedGrangerEstimator().fit(holed)
    assert PlantTable.read(holed).lengths == (150, 100)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_in_order_is_the_same_whatever_its_clock(kind, plant):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = read_plant(plant.set_axis(KINDS[kind]))
    assert_array_equal(read.outputs[1], read_plant(plant).outputs[1])
    table = PlantTable.read(plant.set_axis(KINDS[kind]))
    assert_allclose(table.frame[list(plant)], plant)
    assert table.lengths == (N,)


def test_runs_that_an_index_names_are_episodes(plant):
    runs = plant.set_axis(pd.MultiIndex.from_arrays([np.repeat(["a", "b"], N // 2), [*range(N // 2)] * 2]))
    with pytest.warns(UserWarning, match="names 2 runs"):
        assert read_plant(runs).lengths == (200, 200)
    table = PlantTable.read(runs)
    assert table.lengths == (200, 200)
    assert "episodes: the index names 2 runs" in table.said
    turns = runs.set_axis(pd.MultiIndex.from_product([range(N // 2), ["a", "b"]]).swaplevel())
    with pytest.raises(ValueError, match="are interleaved"):
        read_plant(turns)


def test_units_of_other_row_numbers_are_refused_and_zones_are_one_clock(plant):
    first, second = _apart(plant).values()
    for other in (second.sample(frac=1.0, random_state=0), second.iloc[::-1], second.set_axis(range(5, N + 5))):
        with pytest.raises(ValueError, match="different time indexes"):
            read_plant({"P1": first, "P2": other})
    utc = START.tz_localize("UTC")
    read = read_plant({"P1": first.set_axis(utc.tz_convert("Asia/Tokyo")), "P2": second.set_axis(utc)})
    assert str(read.index.tz) == "Asia/Tokyo"


def test_frames_that_name_units_of_their_own_are_units_side_by_side(plant):
    frames = list(_apart(plant).values())
    read = read_plant(frames)
    assert read.layout.outputs == read_plant(plant).layout.outputs
    assert read.lengths == (N,)
    assert read_plant([plant, plant]).lengths == (N, N)


def test_a_stacked_table_is_not_taken_for_an_autumn_night(plant):
    stacked = plant.set_axis(np.repeat(START[: N // 2], 2))
    with pytest.warns(UserWarning, match=r"400 rows have 200 times.*several units below each other"):
        read_plant(stacked)


def test_a_stream_does_not_change_its_zone(plant, fitted):
    detector = fitted["detector"]
    detector.reset()
    detector.update(plant.set_axis(START)[:100])
    with pytest.raises(ValueError, match=r"zone UTC, those before have no zone.*tz_localize\(None\)"):
        detector.update(plant.set_axis(START.tz_localize("UTC"))[100:200])


@pytest.mark.parametrize(("text", "day"), [("03/04/2026", 3), ("13/04/2026", 13), ("03.04.2026", 3), ("2026-04-03", 3)])
def test_texts_of_times_are_read_so_that_rows_follow_each_other(text, day):
    form = "%Y-%m-%d %H:%M" if text[4] == "-" else f"%d{text[2]}%m{text[2]}%Y %H:%M"
    times = pd.date_range(pd.to_datetime(text, format=form[:-6]), periods=300, freq="6h")
    assert_array_equal(read_clock(pd.Index(times.strftime(form))).times, times)


def test_missing_values_of_pandas_are_missing_and_numbers_without_squares_are_refused(plant):
    hidden = np.random.default_rng(0).random(plant.shape) < 0.02
    right = read_plant(plant.mask(hidden)).outputs
    for objects in (plant.astype(object).mask(hidden, pd.NA), plant.astype(object).where(~hidden, None)):
        for one, other in zip(read_plant(objects).outputs, right, strict=True):
            assert_array_equal(one, other)
    with pytest.raises(ValueError, match="so large that their squares"):
        UnitScaler().fit(plant.assign(P1__s0=plant["P1__s0"] * 1e200))
