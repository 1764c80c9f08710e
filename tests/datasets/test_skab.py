"""Reading SKAB."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal.datasets import load_skab


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
