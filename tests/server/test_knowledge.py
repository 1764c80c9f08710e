"""Knowledge of links in its three forms, contradictions, and answers that honour it."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    Knowledge,
    LikelihoodServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.knowledge import read_knowledge

NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    "given",
    ["a -> b", ["a->b"], [("a", "b")], pd.DataFrame({"cause": ["a"], "effect": ["b"]}), nx.DiGraph([("a", "b")])],
)
def test_forms_say_the_same(given):
    for known in (read_knowledge(NAMES, forbidden=given).forbidden, read_knowledge(NAMES, required=given).required):
        assert np.argwhere(known).tolist() == [[1, 0]]  # effect, cause


def test_forms_of_delays_say_the_same():
    graph = nx.DiGraph()
    graph.add_edge("a", "b", delay=3)
    table = pd.DataFrame({"cause": ["a"], "effect": ["b"], "delay": [3]})
    for given in ({"a -> b": 3}, {("a", "b"): [3]}, table, table.assign(delay=3.0), {"a -> b": np.float64(3)}, graph):
        assert read_knowledge(NAMES, delays=given).delays == {(1, 0): (3,)}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"forbidden": "a -> b", "required": ["a -> b"]}, "a -> b.*required and forbidden"),
        ({"forbidden": "a -> b", "delays": {"a -> b": 2}}, "a -> b.*forbidden, and given delays"),
        ({"forbidden": "a -> d"}, "`forbidden` speaks of 'd'"),
        ({"required": "a -> a"}, "a -> a"),
        ({"required": 3}, "required=3"),
        ({"delays": {"a -> b": 2.5}}, "`delays` of a -> b are 2.5; give whole numbers"),
        ({"delays": {"a -> b": None}}, "`delays` of a -> b are None"),
        ({"delays": {"a -> b": "3 rows"}}, "`delays` of a -> b are '3 rows'"),
        ({"required": "a"}, "'a' in `required`"),
        ({"delays": {"a -> b": 0}}, "a -> b"),
        ({"delays": [("a", "b")]}, "no delays"),
        ({"required": nx.Graph([("a", "b")])}, "no directions"),
        ({"forbidden": pd.DataFrame({"cause": ["a"]})}, "no column 'effect'"),
    ],
)
def test_knowledge_that_cannot_be_read_names_the_pair(given, words):
    with pytest.raises(ValueError, match=words):
        read_knowledge(NAMES, **given)


@pytest.fixture(scope="module")
def plant():
    return make_granger_plant(
        3, n_samples=1500, links=[(0, 1), (1, 2)], link_strength=(0.3, 0.4), n_inputs=1, input_links=[], random_state=0
    )


def row(links, cause, effect):
    return links.query("kind == 'state' and cause == @cause and effect == @effect").iloc[0]


@pytest.mark.medium
@pytest.mark.parametrize("delays", [None, {"unit1 -> unit2": [2, 3]}])
def test_every_answer_honours_what_is_known(plant, delays):
    X, truth = plant
    inputs = dict(zip(X, truth.inputs, strict=True))
    server = LikelihoodServer(
        knowledge=Knowledge(forbidden=["unit0 -> unit1", "unit0 -> unit2"], required="unit2 -> unit0", delays=delays)
    )
    est = FederatedCounterfactualEstimator(server=server).fit(X, inputs=inputs)
    unit = [est.state_slices_[f"unit{m}"] for m in range(3)]
    assert not est.lag_transitions_[:, unit[1], unit[0]].any()
    assert est.lag_transitions_[:, unit[0], unit[2]].any()
    out, kept = row(est.links_, "unit0", "unit1"), row(est.links_, "unit2", "unit0")
    assert (out["verdict"], out["p_value"], out["norm"]) == ("no influence", 1.0, 0.0)
    assert kept["verdict"] == "influence"
    if delays is not None:
        acts = est.lag_transitions_[:, unit[2], unit[1]].any(axis=(1, 2))
        assert set(np.flatnonzero(acts) + 1) <= {2, 3}
    interval = inspection.link_intervals(est).query("cause == 'unit0' and effect == 'unit1'").iloc[0]
    assert interval["high"] < 1e-3
    if not est.server_.lag_inputs_[:, 2:, 0].any():  # no input of unit0 acts on others: its effect stays at home
        effect = est.counterfactual("unit0", 0.0, 1.0, horizon=8, of="state")
        reached = effect[[column for column in effect.columns if not column.startswith("unit0")]].to_numpy()
        assert np.abs(reached).max() < 1e-12


@pytest.mark.parametrize(
    ("delay", "lengths", "words"),
    [
        (160, None, "unit0 -> unit1 are up to 160 rows, and the longest episode has 300"),
        (60, [100, 100, 100], "unit0 -> unit1 are up to 60 rows, and the longest episode has 100"),
        (130, None, "unit0 -> unit1 are up to 130 rows, and a plant of several lags has 120 at most"),
    ],
)
def test_a_delay_that_the_record_cannot_show_names_the_link(delay, lengths, words):
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    server = LikelihoodServer(knowledge=Knowledge(delays={"unit0 -> unit1": delay}))
    with pytest.raises(ValueError, match=words):
        FederatedGrangerEstimator(server=server).fit(X, lengths=lengths)


def test_a_delay_without_plants_of_several_lags_is_refused(plant):
    X, _ = plant
    server = LikelihoodServer(covariance="sandwich", knowledge=Knowledge(delays={"unit0 -> unit1": 3}))
    with pytest.raises(ValueError, match="leave out a link's first row"):
        FederatedGrangerEstimator(server=server).fit(X)


@pytest.mark.medium
def test_tests_and_searches_honour_what_is_known(plant):
    X, _ = plant
    est = FederatedGrangerEstimator(
        server=LikelihoodServer(knowledge=Knowledge(forbidden="unit0 -> unit1", required="unit2 -> unit0"))
    )
    est.fit(X)
    if len(est.lag_transitions_) == 1:
        shares = inspection.stable_links(est, X, n_resamples=3, random_state=0).set_index(["cause", "effect"])["share"]
        assert shares["unit0", "unit1"] == 0
        assert shares["unit2", "unit0"] == 1
    tests = est.test_links(X, "score").set_index(["cause", "effect"])
    assert tests.loc[("unit0", "unit1"), "p_holm"] == 1


@pytest.mark.medium
def test_answers_about_times_and_scatter_honour_what_is_known(plant):
    """Of a link that there is and somebody forbade, and one that there is not and somebody requires."""
    X, _ = plant
    est = FederatedGrangerEstimator(
        server=LikelihoodServer(knowledge=Knowledge(forbidden="unit0 -> unit1", required="unit2 -> unit0"))
    )
    est.fit(X)
    pieces = inspection.links_over_time(est, X, piece=500)
    out = pieces.query("cause == 'unit0' and effect == 'unit1'")
    assert out[["start", "stop", "norm", "p_value", "verdict"]].values.tolist() == [[0, 1500, 0, 1, "no influence"]]
    assert set(pieces.query("cause == 'unit2' and effect == 'unit0'")["verdict"]) == {"influence"}
    drawn = inspection.bootstrap_links(est, X, n_resamples=5, random_state=0).set_index(["kind", "cause", "effect"])
    out = drawn.loc[("state", "unit0", "unit1")]
    assert (out["norm"], out["p_value"], out["bootstrap_p_value"]) == (0, 1, 1)


def with_a_new_link(lag, n=1500):
    """A record of two units without a link, and one in which the first acts on the second from half of it on."""
    rng, records = np.random.default_rng(0), []
    for gain in (0.0, 0.6):
        h, w = np.zeros((n, 2)), rng.normal(size=(n, 2))
        for t in range(lag, n):
            h[t] = 0.5 * h[t - 1] + w[t]
            h[t, 1] += gain * h[t - lag, 0] * (t > n // 2)
        records.append({f"unit{k}": h[:, [k]] * [1.0, 1.3, 0.8] + 0.3 * rng.normal(size=(n, 3)) for k in range(2)})
    return records


@pytest.mark.medium
def test_what_is_forbidden_is_not_told_as_a_change():
    learned, changed = with_a_new_link(lag=1)
    said = {}
    for forbidden in (None, "unit0 -> unit1"):
        est = FederatedGrangerEstimator(server=LikelihoodServer(knowledge=Knowledge(forbidden=forbidden))).fit(learned)
        said[forbidden] = inspection.changed_links(est, changed).set_index(["cause", "effect"]).loc[("unit0", "unit1")]
    assert said[None]["verdict"] == "new"
    assert said["unit0 -> unit1"][["changed", "verdict", "p_value"]].tolist() == [False, "unchanged", 1.0]


@pytest.mark.medium
def test_a_new_link_is_told_at_lags_that_are_known():
    learned, changed = with_a_new_link(lag=3)
    for delays, expected in ((None, 3), ([1, 2], 2)):
        known = None if delays is None else {"unit0 -> unit1": delays}
        est = FederatedGrangerEstimator(server=LikelihoodServer(knowledge=Knowledge(delays=known))).fit(learned)
        row = inspection.changed_links(est, changed).set_index(["cause", "effect"]).loc[("unit0", "unit1")]
        assert not row["delay_after"] > expected
        assert delays or (row["verdict"], row["delay_after"]) == ("new", 3)
