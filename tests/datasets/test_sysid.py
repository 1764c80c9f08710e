"""Reading records with recorded inputs."""

import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.datasets import load_sysid


@pytest.fixture
def winding(tmp_path, write_csv):
    columns = [
        *["u_speed_reel1", "u_speed_reel2", "u_speed_reel3"],
        *["u_current_motor1", "u_current_motor3", "y_tension_12", "y_tension_23"],
    ]
    return write_csv(tmp_path, winding_gz={name: [k, k + 10] for k, name in enumerate(columns)})


def test_sysid_winding_is_a_chain_of_reels(winding):
    bunch = load_sysid(winding, "winding")
    assert bunch.data.columns.tolist() == [
        *["reel1__u_speed_reel1", "reel1__y_tension_12", "reel1__u_current_motor1"],
        "reel2__u_speed_reel2",
        *["reel3__u_speed_reel3", "reel3__y_tension_23", "reel3__u_current_motor3"],
    ]
    assert_array_equal(bunch.data.iloc[0], [0, 5, 3, 1, 2, 6, 4])
    assert bunch.inputs == ["reel1__u_current_motor1", "reel3__u_current_motor3"]
    assert bunch.sampling_period == 0.1
    assert {tuple(row) for row in bunch.topology.to_numpy()} == {
        ("reel1", "reel2"),
        ("reel2", "reel1"),
        ("reel2", "reel3"),
        ("reel3", "reel2"),
    }


def test_sysid_takes_the_file_and_reads_it_uncompressed_too(winding):
    expected = load_sysid(winding, "winding").data
    pd.testing.assert_frame_equal(load_sysid(winding / "winding.csv.gz", "winding").data, expected)
    raw = pd.read_csv(winding / "winding.csv.gz")
    (winding / "winding.csv.gz").unlink()
    raw.to_csv(winding / "winding.csv", index=False)
    pd.testing.assert_frame_equal(load_sysid(winding, "winding").data, expected)


def test_sysid_unknown_name(tmp_path):
    with pytest.raises(ValueError, match=r"'winding', 'steamgen'.* Got 'boiler'"):
        load_sysid(tmp_path, "boiler")


@pytest.mark.parametrize(
    ("name", "rows", "n_clients"),
    [
        ("winding", 1700, 3),
        ("steamgen", 6400, 2),
        ("evaporator", 4200, 3),
        ("powerplant", 200, 3),
        ("glassfurnace", 850, 3),
        ("cd_player_arm", 1400, 2),
        ("cstr", 5000, 2),
        ("exchanger", 2700, 1),
        ("cascaded_tanks", 1024, 1),
    ],
)
def test_sysid(public_data, name, rows, n_clients):
    path = public_data("sysid")
    bunch = load_sysid(path, name)
    columns = pd.read_csv(path / f"{name}.csv.gz", nrows=1).columns
    assert sorted(bunch.variables["column"]) == sorted(columns)
    assert len(bunch.data) == rows
    assert len(bunch.clients) == n_clients
    assert bunch.inputs
