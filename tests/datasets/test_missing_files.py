"""What a reader says when the user does not have the files."""

import pytest

from skfedcausal.datasets import load_batadal, load_causrca, load_skab, load_sysid, load_tep


@pytest.mark.parametrize(
    ("load", "file"),
    [
        (load_tep, "topology.csv"),
        (load_batadal, "train_normal.csv.gz"),
        (lambda path: load_sysid(path, "cstr"), "cstr.csv.gz"),
        (load_skab, "skab.csv.gz"),
        (load_causrca, "all_edges.csv"),
    ],
)
def test_a_missing_file_says_what_was_expected_and_where_it_can_be_had(load, file, tmp_path):
    with pytest.raises(FileNotFoundError, match="can be had from") as error:
        load(tmp_path)
    assert file in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "Reference: " in str(error.value)
