"""Readers of HAI and SWaT on generated files in the documented layouts, and the papers' choice of columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal.datasets import cross_client_columns, load_hai, load_swat

HAI_TAGS = ["P1_FT01", "P1_FCV01D", "P1_FCV01Z", "P2_SIT01", "P2_OnOff", "P3_LIT01", "P4_ST_PO", "P4_LD"]
HAI_OUTPUTS = {"P1_FT01", "P1_FCV01Z", "P2_SIT01", "P3_LIT01", "P4_ST_PO"}


def hai_table(n, time, seed=0):
    rng = np.random.default_rng(seed)
    stamps = pd.date_range("2021-07-10 00:00:01", periods=n, freq="s").strftime("%Y-%m-%d %H:%M:%S")
    return pd.DataFrame({time: stamps, **{tag: rng.standard_normal(n) for tag in HAI_TAGS}})


def test_hai_21_03_and_22_04(tmp_path):
    first, second = hai_table(5, "time"), hai_table(4, "time", 1)
    for k, table in enumerate((first, second), 1):
        table = table.assign(attack=0, attack_P1=0)
        table.to_csv(tmp_path / f"train{k}.csv.gz", index=False)
    test = hai_table(3, "time", 2).assign(attack=[0, 1, 1], attack_P1=[0, 1, 1])
    test.to_csv(tmp_path / "test1.csv", index=False, sep=";")
    hai = load_hai(tmp_path)
    assert hai.files == ["train1", "train2"]
    assert hai.lengths == [5, 4]
    assert hai.clients == ["P1", "P2", "P3", "P4"]
    assert not hai.labels.any()
    assert_allclose(hai.data["P2__P2_SIT01"], np.r_[first["P2_SIT01"], second["P2_SIT01"]])
    assert set(hai.variables.query("role == 'output'")["column"]) == HAI_OUTPUTS
    tested = load_hai(tmp_path, "test1", inputs="separate")
    assert tested.labels.tolist() == [False, True, True]
    assert load_hai(tmp_path / "test1.csv").files == ["test1"]
    assert tested.inputs == ["P1__P1_FCV01D", "P2__P2_OnOff", "P4__P4_LD"]


def test_hai_23_05_has_labels_of_its_own(tmp_path):
    hai_table(6, "timestamp").to_csv(tmp_path / "hai-test1.csv", index=False)
    stamps = hai_table(6, "timestamp")["timestamp"]
    labels = pd.DataFrame({"timestamp": stamps, "label": [0, 0, 1, 1, 0, 0]})
    labels.to_csv(tmp_path / "label-test1.csv", index=False)
    assert load_hai(tmp_path, "hai-test1").labels.tolist() == [False, False, True, True, False, False]
    labels[:4].to_csv(tmp_path / "label-test1.csv", index=False)
    with pytest.raises(ValueError, match="4 rows for 6"):
        load_hai(tmp_path, "hai-test1")


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="neither ships nor downloads"):
        load_hai(tmp_path)
    hai_table(3, "time").to_csv(tmp_path / "train1.csv", index=False)
    hai_table(3, "time").drop(columns="P1_FT01").to_csv(tmp_path / "train2.csv", index=False)
    with pytest.raises(ValueError, match="P1_FT01"):
        load_hai(tmp_path)
    with pytest.raises(ValueError, match="train3"):
        load_hai(tmp_path, "train3")
    hai_table(3, "clock").to_csv(tmp_path / "train1.csv", index=False)
    with pytest.raises(ValueError, match="no column timestamp or time"):
        load_hai(tmp_path, "train1")


SWAT_TAGS = ["FIT101", "LIT101", "MV101", "P101", "AIT201", "P201", "DPIT301", "UV401", "PIT501", "FIT601"]


@pytest.mark.parametrize("grouped", [False, True], ids=["plain", "stages above the names"])
def test_swat(tmp_path, grouped):
    rng = np.random.default_rng(0)
    stamps = pd.date_range("2015-12-28 10:00:00", periods=4, freq="s").strftime(" %d/%m/%Y %I:%M:%S %p")
    table = pd.DataFrame({" Timestamp": stamps, **{tag: rng.standard_normal(4) for tag in SWAT_TAGS}})
    table["Normal/Attack"] = ["Normal", "Attack", "A ttack", "Normal"]
    text = table.to_csv(index=False)
    text = "," + ",".join(["P1"] + [""] * 10) + "\n" + text if grouped else text
    (tmp_path / "SWaT_Dataset_Attack_v0.csv").write_text(text)
    swat = load_swat(tmp_path, "SWaT_Dataset_Attack_v0", inputs="separate")
    assert swat.clients == ["P1", "P2", "P3", "P4", "P5", "P6"]
    assert swat.labels.tolist() == [False, True, True, False]
    assert swat.data.index[0] == pd.Timestamp("2015-12-28 10:00:00")
    assert swat.inputs == ["P1__MV101", "P1__P101", "P2__P201", "P4__UV401"]
    assert_allclose(swat.data["P3__DPIT301"], table["DPIT301"])
    with pytest.raises(FileNotFoundError, match="on request"):
        load_swat(tmp_path)


def test_columns_that_go_along_with_another_client():
    rng = np.random.default_rng(0)
    common = rng.standard_normal(4000)
    noise = rng.standard_normal((4000, 4))
    data = pd.DataFrame(
        {
            "a__with": common + noise[:, 0],
            "a__alone": noise[:, 1],
            "a__with_alone": noise[:, 1] + 0.1 * noise[:, 2],  # of its own client only
            "a__constant": 1.0,
            "b__with": -common + noise[:, 3],
        }
    )
    assert cross_client_columns(data) == ["a__with", "b__with"]
    with pytest.raises(ValueError, match="No column of a, b"):
        cross_client_columns(data, threshold=0.9)
