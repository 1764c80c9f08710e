"""Reading records of the Tennessee Eastman process."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.datasets import load_tep


@pytest.fixture
def tep(tmp_path, write_csv):
    columns = ["XMEAS_1", "XMEAS_23", "XMV_1", "XMEAS_7"]
    sizes = {"d00": 4, "d01": 3, "d01_te": 6, "d20": 2, "d21": 2}
    values = np.arange(100.0, dtype="float32").reshape(-1, 4)
    records = {name: values[:rows] for name, rows in sizes.items()}
    np.savez(tmp_path / "tep.npz", columns=np.array(columns), **records)
    return write_csv(
        tmp_path,
        variables={
            "column": columns,
            "unit": ["kscmh", "mol%", "%", "kPa"],
            "client": ["feed", "reactor", "feed", "reactor"],
            "role": ["output", "analyser", "input", "output"],
            "update_period_h": [0.05, 0.1, 0.05, 0.05],
        },
        faults={
            "fault": [1, 20],
            "root_client": ["feed", "unknown"],
            "test_onset_row": [4, 4],
        },
        topology={"source": ["feed"], "target": ["reactor"]},
    )


def test_tep_puts_clients_side_by_side(tep):
    bunch = load_tep(tep)
    assert bunch.data.columns.tolist() == ["feed__XMEAS_1", "feed__XMV_1", "reactor__XMEAS_7"]
    assert bunch.variables["name"].tolist() == bunch.data.columns.tolist()
    assert_array_equal(bunch.data.iloc[1], [4.0, 6.0, 7.0])
    assert set(bunch.data.dtypes) == {np.dtype(float)}
    assert bunch.clients == ["feed", "reactor"]
    assert bunch.inputs == []
    assert bunch.sampling_period == 180.0
    assert bunch.topology.to_dict("records") == [{"source": "feed", "target": "reactor"}]
    assert "Illinois" in bunch.DESCR


def test_tep_stacks_records_and_knows_where_the_fault_starts(tep):
    bunch = load_tep(tep, records=["d00", "d01", "d01_te", "d20", "d21"])
    assert bunch.lengths == [4, 3, 6, 2, 2]
    assert len(bunch.data) == 17
    assert bunch.data.index.tolist() == list(range(17))
    expected = [""] * 4 + ["feed"] * 3 + [""] * 4 + ["feed"] * 2 + ["unknown"] * 4
    assert bunch.target.tolist() == expected


def test_tep_manipulated_variables(tep):
    separate = load_tep(tep, "d00", inputs="separate")
    assert separate.inputs == ["feed__XMV_1"]
    assert "feed__XMV_1" in separate.data
    dropped = load_tep(tep, "d00", inputs="drop")
    assert dropped.inputs == []
    assert "feed__XMV_1" not in dropped.data


def test_tep_analysers_are_held_or_sparse(tep):
    held = load_tep(tep, analysers=True).data["reactor__XMEAS_23"]
    sparse = load_tep(tep, ["d00", "d01"], analysers="sparse").data
    assert_array_equal(held, [1.0, 5.0, 9.0, 13.0])
    expected = [1.0, np.nan, 9.0, np.nan, 1.0, np.nan, 9.0]
    assert_array_equal(sparse["reactor__XMEAS_23"], expected)
    assert sparse.drop(columns="reactor__XMEAS_23").notna().all(axis=None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"records": ["d00", "d02"]}, "'d00', 'd01', 'd01_te', 'd20', 'd21'. Got 'd02'"),
        ({"records": []}, "records is empty"),
        ({"inputs": "actuators"}, "inputs must be one of"),
        ({"analysers": "slow"}, "analysers must be one of"),
    ],
)
def test_tep_wrong_arguments(tep, arguments, message):
    with pytest.raises(ValueError, match=message):
        load_tep(tep, **arguments)


def test_tep(public_data):
    bunch = load_tep(public_data("tep"), ["d00", "d01_te"])
    assert bunch.lengths == [500, 960]
    assert bunch.data.shape == (1460, 33)
    sizes = bunch.variables["client"].value_counts().to_dict()
    assert sizes == {"feed": 8, "reactor": 6, "separator": 7, "compressor": 5, "stripper": 7}
    assert bunch.data.notna().all(axis=None)
    assert (bunch.target == "feed").sum() == 800
    assert set(bunch.topology["source"]) <= set(bunch.clients)


def test_tep_analysers_report_in_the_rows_that_sparse_keeps(public_data):
    path = public_data("tep")
    records = ["d00", "d00_te", "d13_te"]
    held = load_tep(path, records, analysers=True)
    sparse = load_tep(path, records, analysers="sparse")
    assert held.data.shape == (2420, 52)
    for start, stop in zip([0, 500, 1460], [500, 1460, 2420], strict=True):
        rebuilt = sparse.data[start:stop].ffill()
        pd.testing.assert_frame_equal(rebuilt, held.data[start:stop])


def test_only_the_missing_file_is_blamed(tep):
    (tep / "faults.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"but faults\.csv cannot be found"):
        load_tep(tep)
