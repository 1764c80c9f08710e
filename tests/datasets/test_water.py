"""Reading records of water systems: BATADAL and SKAB."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal.datasets import load_batadal, load_skab


@pytest.fixture
def batadal(tmp_path, write_csv):
    times = pd.date_range("2016-09-13 22:00", periods=5, freq="h").strftime("%Y-%m-%d %H:%M")
    table = {
        "DATETIME": times,
        "L_T1": [1.0, 2.0, 3.0, 4.0, 5.0],
        "L_T2": [5.0, 4.0, 3.0, 2.0, 1.0],
        "S_PU1": [0, 1, 0, 1, 0],
        "ATT_FLAG": [0, 1, 1, 0, 0],
    }
    return write_csv(
        tmp_path,
        train_normal_gz=table | {"DATETIME": times.str.replace("2016", "2014"), "ATT_FLAG": 0},
        train_attacks_gz=table,
        variables={
            "column": ["L_T1", "L_T2", "S_PU1"],
            "plc": ["PLC2", "PLC3", "PLC1"],
            "zone": ["Z1", "Z2", "Z1"],
            "role": ["output", "output", "input"],
        },
        attacks={
            "attack": [1],
            "start": ["2016-09-13 23:00"],
            "end": ["2016-09-14 00:00"],
            "root_plc": ["PLC2"],
            "root_zone": ["Z1"],
        },
    )


def test_batadal_by_zone(batadal):
    bunch = load_batadal(batadal, "train_attacks", inputs="separate")
    assert bunch.data.columns.tolist() == ["Z1__L_T1", "Z1__S_PU1", "Z2__L_T2"]
    assert bunch.data.index[0] == pd.Timestamp("2016-09-13 22:00")
    assert bunch.inputs == ["Z1__S_PU1"]
    assert bunch.clients == ["Z1", "Z2"]
    assert bunch.lengths == [5]
    assert bunch.target.tolist() == ["", "Z1", "Z1", "", ""]
    assert bunch.labels.tolist() == [False, True, True, False, False]
    assert bunch.attacks["end"][0] == pd.Timestamp("2016-09-14 00:00")


def test_batadal_by_plc(batadal):
    bunch = load_batadal(batadal, "train_attacks", by="plc")
    assert bunch.data.columns.tolist() == ["PLC2__L_T1", "PLC3__L_T2", "PLC1__S_PU1"]
    assert bunch.target.tolist() == ["", "PLC2", "PLC2", "", ""]


def test_batadal_normal_subset_has_no_attack(batadal):
    bunch = load_batadal(batadal)
    assert not bunch.labels.any()
    assert set(bunch.target) == {""}


@pytest.mark.parametrize("arguments", [{"subset": "test"}, {"by": "pump"}])
def test_batadal_wrong_arguments(batadal, arguments):
    with pytest.raises(ValueError, match="must be one of"):
        load_batadal(batadal, **arguments)


def test_batadal(public_data):
    bunch = load_batadal(public_data("batadal"), "train_attacks", inputs="separate")
    assert bunch.data.shape == (4177, 43)
    assert bunch.clients == ["Z1", "Z2", "Z3", "Z4", "Z5"]
    assert len(bunch.inputs) == 12
    np.testing.assert_array_equal(bunch.target != "", bunch.labels)
    assert (bunch.data.index.to_series().diff()[1:] == pd.Timedelta(hours=1)).all()


def test_batadal_normal_year(public_data):
    bunch = load_batadal(public_data("batadal"), by="plc")
    assert len(bunch.clients) == 9
    assert not bunch.labels.any()
    constant = bunch.data.columns[bunch.data.nunique() == 1]
    assert {"PLC1__F_PU3", "PLC3__F_PU5", "PLC5__F_PU9"} <= set(constant)


@pytest.fixture
def skab(tmp_path, write_csv):
    sensors = [
        *["Accelerometer1RMS", "Accelerometer2RMS", "Current", "Pressure"],
        *["Temperature", "Thermocouple", "Voltage", "Volume Flow RateRMS"],
    ]
    names = ["anomaly-free/anomaly-free", "valve1/0", "other/5", "other/14"]
    table = {
        "experiment": np.repeat(names, 2),
        "datetime": pd.date_range("2020-02-08", periods=8, freq="s"),
        **{name: np.arange(8.0) for name in sensors},
        "anomaly": [0, 0] + [0, 1] * 3,
        "changepoint": [0, 0] + [0, 1] * 3,
    }
    return write_csv(tmp_path, skab_gz=table)


def test_skab_experiments_are_episodes_with_roots(skab):
    bunch = load_skab(skab)
    assert bunch.clients == ["motor", "vibration", "hydraulic", "thermal"]
    assert bunch.data.shape == (8, 8)
    assert bunch.data.columns[0] == "motor__Current"
    assert bunch.lengths == [2, 2, 2, 2]
    assert bunch.target.tolist() == ["", "", "", "hydraulic", "", "motor", "", "thermal"]
    assert bunch.labels["anomaly"].sum() == 3


def test_skab_experiments_can_be_chosen(skab):
    bunch = load_skab(skab, ["other/5", "valve1/0"])
    assert bunch.experiments == ["other/5", "valve1/0"]
    assert bunch.data["motor__Current"].tolist() == [4.0, 5.0, 2.0, 3.0]
    with pytest.raises(ValueError, match=r"'valve1/0', 'other/5'.* Got 'valve9/0'"):
        load_skab(skab, "valve9/0")


def test_skab(public_data):
    bunch = load_skab(public_data("skab"))
    assert bunch.data.shape == (35842, 8)
    assert len(bunch.experiments) == 25
    assert bunch.lengths[0] == 9405
    assert set(bunch.target) == {"", "hydraulic", "motor"}
