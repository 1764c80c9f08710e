"""Reading causRCA."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.datasets import load_causrca


def events(run, rows):
    return pd.DataFrame([(run, *row) for row in rows], columns=["run", "time_s", "node", "value", "type"])


@pytest.fixture
def causrca(tmp_path, write_csv):
    normal = [
        (0.0, "Pump", "True", "Binary"),
        (0.0, "Level", "1.5", "Continuous"),
        (0.0, "Prog", "B", "Categorical"),
        (0.0, "Elsewhere", "1.0", "Continuous"),
        (1.4, "Level", "2.5", "Continuous"),
        (2.0, "Pump", "False", "Binary"),
        (3.2, "Prog", "A", "Categorical"),
    ]
    fault = [(0.0, "Level", "7", "Continuous"), (0.0, "Prog", "C", "Categorical")]
    fault += [(4.0, "Level", "8", "Continuous")]
    return write_csv(
        tmp_path,
        normal_runs_gz=pd.concat([events(101, normal), events(102, normal[:2])]),
        fault_runs_gz=events("coolant/exp_1/run_1", fault),
        labels={
            "run": ["coolant/exp_1/run_1"],
            "root_client": ["coolant"],
            "manipulated": ["Level"],
            "cause_start_at": [1.5],
            "cause_end_at": [3.0],
        },
        all_nodes={
            "path": ["Lathe/Coolant/Tank", "Lathe/Program", "Lathe/Coolant"],
            "label": ["Level", "Prog", "Pump"],
        },
        all_edges={
            "source_label": ["Prog", "Prog", "Pump"],
            "target_label": ["Pump", "Pump", "Level"],
            "comment": ["first", "again", "fills"],
        },
    )


def test_causrca_holds_the_last_value_on_the_grid(causrca):
    bunch = load_causrca(causrca)
    assert bunch.runs == ["101", "102"]
    assert bunch.lengths == [4, 1]
    assert bunch.data.columns.tolist() == ["Coolant__Level", "Coolant__Pump"]
    assert bunch.data["Coolant__Level"].tolist() == [1.5, 1.5, 2.5, 2.5, 1.5]
    assert bunch.data["Coolant__Pump"].tolist() == [1.0, 1.0, 0.0, 0.0, 1.0]
    assert set(bunch.target) == {""}
    assert bunch.labels.empty


def test_causrca_period_is_the_step_of_the_grid(causrca):
    bunch = load_causrca(causrca, runs="101", period=0.7)
    assert bunch.lengths == [5]
    assert bunch.data["Coolant__Level"].tolist() == [1.5, 1.5, 2.5, 2.5, 2.5]


def test_causrca_codes_of_categories_agree_between_subsets(causrca):
    normal = load_causrca(causrca, categorical=True)
    faults = load_causrca(causrca, "faults", categorical=True)
    assert normal.categories == faults.categories == {"Program__Prog": ["A", "B", "C"]}
    assert_array_equal(normal.data["Program__Prog"], [1, 1, 1, 1, np.nan])
    assert_array_equal(faults.data["Program__Prog"], [2, 2, 2, 2, 2])


def test_causrca_fault_runs_have_a_root(causrca):
    bunch = load_causrca(causrca, "faults")
    assert bunch.target.tolist() == ["", "", "Coolant", "Coolant", ""]
    assert bunch.labels["manipulated"].tolist() == ["Level"]


def test_causrca_graph_has_flat_names_and_each_edge_once(causrca):
    graph = load_causrca(causrca).graph
    assert graph[["source", "target"]].to_numpy().tolist() == [
        ["Program__Prog", "Coolant__Pump"],
        ["Coolant__Pump", "Coolant__Level"],
    ]


@pytest.mark.parametrize("arguments", [{"subset": "test"}, {"runs": ["9"]}, {"period": 0}])
def test_causrca_wrong_arguments(causrca, arguments):
    with pytest.raises(ValueError, match="must be"):
        load_causrca(causrca, **arguments)


def test_causrca(public_data):
    bunch = load_causrca(public_data("causrca"), "faults")
    assert len(bunch.lengths) == 67
    assert set(bunch.target) == {"", "Coolant", "Hydraulics", "MeasuringProbe"}
    assert len(bunch.graph) == 102
    manipulated = {node for nodes in bunch.labels["manipulated"] for node in nodes.split(";")}
    assert manipulated <= set(bunch.variables["column"])
