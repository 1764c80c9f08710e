"""The matrix of links writes the intervals that the estimator gives."""

import pytest
from matplotlib import pyplot as plt

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LinkMatrixDisplay


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_every_cell_holds_its_interval():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    est = FederatedGrangerEstimator().fit(X)
    display = LinkMatrixDisplay.from_estimator(est, intervals=0.9)
    labels = {text.get_position(): text.get_text() for text in display.ax_.texts}
    assert len(labels) == 6
    for row in est.link_intervals(0.9).itertuples():
        place = est.client_names_.index(row.cause), est.client_names_.index(row.effect)
        assert labels[place].endswith(f"{row.low:.2f}–{row.high:.2f}")
    assert labels[0, 2].startswith("●")


def test_without_intervals_only_marks_are_written():
    X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    display = LinkMatrixDisplay.from_estimator(FederatedGrangerEstimator().fit(X))
    assert all(text.get_text() in "●?" for text in display.ax_.texts)


def test_links_of_inputs_do_not_overwrite_those_of_states():
    X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    display = LinkMatrixDisplay.from_estimator(est)
    for link in est.links_[est.links_["kind"] == "state"].itertuples():
        place = est.client_names_.index(link.effect), est.client_names_.index(link.cause)
        assert display.strength[place] == link.strength
