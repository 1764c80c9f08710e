"""What `experiment` gives and refuses."""

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator, InputModel, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.inspection.moves import link_design

pytestmark = pytest.mark.medium

U = "unit0__u0"


@pytest.fixture(scope="module")
def fitted():
    X, truth = make_granger_plant(2, n_samples=800, n_inputs=1, input_links=[(0, 1)], random_state=0)
    return FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)


def ask(fitted, **settings):
    asked = {"cause": "unit0", "effect": "unit1", "inputs": [U], "bounds": {U: (-1.0, 3.0)}, "rows": 120} | settings
    return inspection.experiment(fitted, asked.pop("cause"), asked.pop("effect"), **asked)


@pytest.mark.parametrize("kind", ["state", "input"])
def test_a_schedule_keeps_to_its_bounds_and_is_the_same_at_every_call(fitted, kind):
    plan = ask(fitted, kind=kind)
    assert plan.schedule.columns.tolist() == [U]
    assert plan.schedule.index.tolist() == list(range(1, 121))
    assert plan.schedule.to_numpy().min() == -1.0
    assert plan.schedule.to_numpy().max() == 3.0
    assert (
        plan.verdict
        == fitted.links_.query("cause == 'unit0' and effect == 'unit1' and kind == @kind")["verdict"].item()
    )
    np.testing.assert_array_equal(plan.schedule, ask(fitted, kind=kind).schedule)
    assert 0 < plan.rows_needed <= 1.05 * plan.random_rows_needed


def test_rates_hold_from_the_present_value_on(fitted):
    plan = ask(fitted, rates={U: 0.25}, now={U: 2.0})
    moves = np.diff(np.r_[2.0, plan.schedule[U]])
    assert np.abs(moves).max() <= 0.25 + 1e-12
    assert np.abs(moves).max() > 0.2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"cause": "unit7"}, "unknown unit 'unit7'"),
        ({"effect": "unit0"}, "a link has two units"),
        ({"kind": "both"}, "choose 'state' or 'input'"),
        ({"rows": 5}, "at least 10"),
        ({"bounds": {}}, "no bounds for input"),
        ({"now": {U: 5.0}}, "stands at 5 now, outside its bounds -1 to 3"),
        ({"now": {"unit1__u0": 0.0}}, "`inputs` are"),
        ({"now": {U: "left"}}, "give a finite number"),
        ({"now": 2.0}, "give a dict from input"),
        ({"cause": "unit1", "effect": "unit0", "kind": "input"}, "None of the `inputs` belongs to 'unit1'"),
    ],
)
def test_what_is_wrong_is_said(fitted, wrong, words):
    with pytest.raises(ValueError, match=words):
        ask(fitted, **wrong)


def test_inputs_that_do_nothing_to_the_cause_are_refused():
    X, truth = make_granger_plant(2, n_samples=800, n_inputs=1, links=[(0, 1)], random_state=0)
    fitted = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    with pytest.raises(ValueError, match="do next to nothing to the states of 'unit0'"):
        inspection.experiment(fitted, "unit0", "unit1", inputs=["unit1__u0"], bounds={"unit1__u0": (-1, 1)}, rows=50)


def test_linear_inputs_of_a_plant_with_others_are_moved_as_they_act():
    """Row k of the design's responses is A^(k-1) B, with the columns of B that are those of the inputs named."""
    X, truth = make_granger_plant(2, n_samples=800, n_inputs=2, links=[(1, 0)], random_state=0)
    other, curved, names = "unit0__u1", "unit0__u0", ["unit1__u1", "unit0__u1"]
    fitted = FederatedCounterfactualEstimator(sampled="after", input_model=InputModel(basis={curved: "spline"}))
    fitted.fit(X, inputs=truth.inputs)
    at = [fitted._spec.written.position(name) for name in names]
    design = link_design(fitted.server_, fitted._spec, "unit1", "unit0", "state", at, np.ones(2), 12)
    assert len(fitted.lag_transitions_) == 1
    B = fitted.input_[:, [fitted.input_names_.index(name) for name in names]]
    expected = np.stack([np.linalg.matrix_power(fitted.transition_, k) @ B for k in range(11)], axis=1)
    scale = fitted.server_.plant_.scale
    found = np.einsum("ij,jtk->itk", scale, design.responses)[:, 1:]
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    plan = inspection.experiment(
        fitted, "unit1", "unit0", inputs=names, bounds=dict.fromkeys(names, (-1.0, 1.0)), rows=40
    )
    assert plan.schedule.columns.tolist() == names
    with pytest.raises(ValueError, match=f"Inputs '{curved}' act through a curve"):
        inspection.experiment(
            fitted, "unit0", "unit1", inputs=[curved, other], bounds=dict.fromkeys([curved, other], (-1, 1)), rows=40
        )
