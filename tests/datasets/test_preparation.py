"""The second paper's preprocessing on generated files in the documented layouts."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import FederatedCounterfactualEstimator, GradientServer, KalmanClient
from skfedcausal.datasets import (
    discrete_columns,
    load_hai,
    load_swat,
    prepare_hai,
    prepare_records,
    prepare_swat,
)
from skfedcausal.papers import StopRule

N = 600


def switch(rng, n, values=(1, 2), every=40):
    """A switch that is thrown now and then."""
    return rng.choice(values, size=n // every + 1).repeat(every)[:n]


def level(rng, n, common):
    return common + 0.3 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def hai(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("hai"), np.random.default_rng(0)
    common = np.cumsum(rng.standard_normal(N)) / 5
    stamps = pd.date_range("2021-07-10 00:00:01", periods=N, freq="s").strftime("%Y-%m-%d %H:%M:%S")
    late = np.where(np.arange(N) < 400, 3.0, rng.standard_normal(N))
    table = pd.DataFrame(
        {
            "time": stamps,
            "P1_FT01": level(rng, N, common),
            "P1_PIT01": 7.0,  # never moves
            "P1_PIT02": late,  # does not move in the first rows
            "P1_FCV01D": level(rng, N, -common),
            "P1_PP01AD": switch(rng, N),
            "P2_SIT01": level(rng, N, common),
            "P2_VT01": np.round(level(rng, N, common) > 0),  # a measurement with two values
            "P2_OnOff": switch(rng, N, (0, 1)),
            "P3_LIT01": level(rng, N, common),
            "P3_LCV01D": level(rng, N, common),
            "P4_ST_PO": level(rng, N, common),
            "P4_LD": level(rng, N, common),
            "attack": 0,
        }
    )
    table.to_csv(folder / "train1.csv", index=False)
    return load_hai(folder, inputs="separate"), table


def test_hai_as_published(hai):
    record, table = hai
    ready = prepare_hai(record)
    assert list(ready.data) == [
        "P1__P1_FT01",
        "P1__P1_PIT02",
        "P1__P1_FCV01D",
        "P2__P2_SIT01",
        "P3__P3_LIT01",
        "P3__P3_LCV01D",
        "P4__P4_ST_PO",
        "P4__P4_LD",
    ]
    assert ready.inputs == ["P1__P1_FCV01D", "P3__P3_LCV01D", "P4__P4_LD"]
    assert ready.dropped.to_dict() == {
        "P1__P1_PIT01": "constant",
        "P1__P1_PP01AD": "discrete",
        "P2__P2_VT01": "discrete",
        "P2__P2_OnOff": "discrete",
    }
    assert_allclose(ready.data.mean(), 0.0, atol=1e-12)
    assert_allclose(ready.data.std(ddof=0), 1.0)
    back = ready.data["P1__P1_FT01"] * ready.scaling.loc["P1__P1_FT01", "std"]
    assert_allclose(back + ready.scaling.loc["P1__P1_FT01", "mean"], table["P1_FT01"])


def test_what_stands_still_after_truncation_is_dropped_too(hai):
    ready = prepare_hai(hai[0], n_rows=400)
    assert ready.dropped["P1__P1_PIT02"] == "constant in the first rows"
    assert len(ready.data) == 400


@pytest.mark.filterwarnings("ignore:.*stands still")  # as that sensor does after the first rows
def test_prepared_records_can_be_trained_on(hai):
    ready = prepare_hai(hai[0])
    server = GradientServer(xi=1.0, exchange="moments", stop=StopRule(max_iter=20, tol=0.0))
    est = FederatedCounterfactualEstimator(KalmanClient(n_states=1), server=server, input_columns=ready.inputs)
    est.fit(ready.data)
    assert est.client_names_ == ("P1", "P2", "P3", "P4")
    assert est.input_.shape == (4, 3)


@pytest.fixture(scope="module")
def swat(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("swat"), np.random.default_rng(1)
    common = np.cumsum(rng.standard_normal(N)) / 5
    stamps = pd.date_range("2015-12-28 10:00:00", periods=N, freq="s").strftime(" %d/%m/%Y %I:%M:%S %p")
    table = pd.DataFrame(
        {
            " Timestamp": stamps,
            "FIT101": level(rng, N, common),
            "LIT101": rng.standard_normal(N),  # goes along with nobody
            "MV101": switch(rng, N, (0, 1, 2)),
            "P101": switch(rng, N, (1, 2)),
            "P102": 1,
            "AIT201": level(rng, N, common),
            "AIT202": switch(rng, N, (3, 4, 5)),
            "P201": switch(rng, N, (1, 2)),
            "Normal/Attack": "Normal",
        }
    )
    table.to_csv(folder / "SWaT_Dataset_Normal_v1.csv", index=False)
    return load_swat(folder, inputs="separate"), table


def test_swat_as_published(swat):
    record, table = swat
    ready = prepare_swat(record, n_rows=500, input_noise=0.0)
    assert list(ready.data) == ["P1__FIT101", "P1__MV101", "P1__P101", "P2__AIT201", "P2__P201"]
    assert ready.inputs == ["P1__MV101", "P1__P101", "P2__P201"]
    assert ready.dropped.to_dict() == {
        "P1__LIT101": "alone",
        "P1__P102": "constant",
        "P2__AIT202": "discrete",
    }
    on = (table["MV101"].iloc[:500] == 2).astype(float)  # in between (0) and closed (1) are both off
    assert_allclose(ready.data["P1__MV101"], (on - on.mean()) / on.std(ddof=0))


def test_noise_is_added_to_switches_only_and_is_seeded(swat):
    clean = prepare_swat(swat[0], input_noise=0.0).data
    noisy, again = (prepare_swat(swat[0], input_noise=0.1, random_state=3).data for _ in range(2))
    assert noisy.equals(again)
    difference = noisy - clean
    switches = ["P1__MV101", "P1__P101", "P2__P201"]
    assert_array_equal(difference.drop(columns=switches), 0.0)
    error = 0.1 / np.sqrt(2 * difference[switches].size)  # of a standard deviation
    assert abs(difference[switches].to_numpy().std() - 0.1) < 4 * error


def test_discrete_columns_by_values_changes_and_dominance():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "two": rng.integers(0, 2, 1000),  # changes often, but is boolean
            "steps": np.arange(1000) // 200,
            "counts": rng.integers(0, 5, 1000),  # few values, changes often
            "stuck": np.where(np.arange(1000) < 995, 1.0, rng.standard_normal(1000)),
            "real": rng.standard_normal(1000),
            "gaps": np.where(np.arange(1000) % 2, np.nan, np.arange(1000) % 4 // 2),
        }
    )
    assert discrete_columns(data) == ["two", "steps", "stuck", "gaps"]
    assert discrete_columns(data, max_values=3) == ["two", "stuck", "gaps"]


def test_bad_arguments_are_refused(hai):
    with pytest.raises(ValueError, match="not columns"):
        prepare_records(hai[0].data, ["P9__x"])
    with pytest.raises(ValueError, match="choose 'keep', 'drop' or 'bits'"):
        prepare_records(hai[0].data, hai[0].inputs, discrete_inputs="noise")
    with pytest.raises(ValueError, match="No measurement is left of P2"):
        prepare_records(hai[0].data.drop(columns="P2__P2_SIT01"), hai[0].inputs)
    with pytest.raises(ValueError, match="inputs='separate'"):
        prepare_hai(type(hai[0])(data=hai[0].data, inputs=[]))
