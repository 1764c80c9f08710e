"""What estimators say about links besides their table: benefits, tests, graphs."""

import pickle
import sys

import pytest
from sklearn.exceptions import NotFittedError

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, GradientServer, inspection
from skfedcausal.datasets import make_granger_plant


@pytest.fixture(scope="module")
def record():
    return make_granger_plant(3, links=[("unit0", "unit2")], link_strength=0.5, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(record):
    return FederatedGrangerEstimator().fit(record)


@pytest.mark.medium
def test_benefits_say_what_was_paid(fitted, record):
    table = inspection.benefit(fitted, record)
    assert table.index.tolist() == list(fitted.client_names_)
    for name, row in table.iterrows():
        paid = fitted.communication_["per_client"][name]
        assert (row["bytes_up"], row["bytes_down"]) == (paid["bytes_up"], paid["bytes_down"])
    assert table.loc["unit2", "neighbour"] == "unit0"
    assert fitted.benefit_ is table
    pairs = inspection.benefit(fitted, record, by="pair")
    assert pairs[["cause", "effect"]].equals(fitted.links_[["cause", "effect"]])


@pytest.mark.medium
def test_benefits_are_those_of_the_last_call_since_the_fit(record):
    est = FederatedGrangerEstimator().fit(record)
    assert not hasattr(est, "benefit_")
    before = inspection.benefit(est, record)
    assert pickle.loads(pickle.dumps(est)).benefit_.equals(before)
    assert not hasattr(est.fit(record), "benefit_")


def test_before_a_fit_there_is_nothing_to_say():
    est = FederatedGrangerEstimator()
    assert not hasattr(est, "benefit_")
    for question in (
        lambda: inspection.benefit(est, []),
        lambda: est.test_links([]),
        lambda: inspection.to_networkx(est),
    ):
        with pytest.raises(NotFittedError):
            question()


def test_servers_without_a_likelihood_test_no_links():
    est = FederatedGrangerEstimator(server=GradientServer())
    assert not hasattr(est, "test_links")


def test_an_unknown_table_is_refused(fitted, record):
    with pytest.raises(ValueError, match="choose 'unit' or 'pair'"):
        inspection.benefit(fitted, record, by="link")


@pytest.mark.medium
def test_plants_with_inputs_have_tests_but_no_benefit():
    X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    with pytest.raises(ValueError, match="without inputs"):
        inspection.benefit(est, X, inputs=truth.inputs)
    tests = est.test_links(X, "score", inputs=truth.inputs)
    assert len(tests) == 2


def test_graph_has_the_links_that_were_found(fitted):
    networkx = pytest.importorskip("networkx")
    graph = inspection.to_networkx(fitted)
    assert isinstance(graph, networkx.MultiDiGraph)
    assert list(graph) == list(fitted.client_names_)
    found = fitted.links_.query("verdict == 'influence'")
    assert set(graph.edges()) == set(zip(found["cause"], found["effect"], strict=True))
    edge = graph.edges["unit0", "unit2", "state"]
    assert edge["weight"] == edge["norm"] == found["norm"].iloc[0]
    every = inspection.to_networkx(fitted, undecided=True)
    assert every.number_of_edges() == (~fitted.links_["verdict"].isin(["no influence", "negligible"])).sum()


def test_without_networkx_the_message_names_the_extra(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"pip install 'skfedcausal\[graph\]'"):
        inspection.to_networkx(fitted)
