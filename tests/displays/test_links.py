"""Pictures of links: what is drawn is what the tables hold."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LinkGraphDisplay, LinkMatrixDisplay, SpectrumDisplay
from skfedcausal.displays._base import flow_places


@pytest.fixture(scope="module")
def fitted():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    return FederatedGrangerEstimator().fit(X)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def arrows(ax):
    return [text for text in ax.texts if text.get_text() == ""]


def test_graph_has_one_arrow_for_each_influence(fitted):
    display = LinkGraphDisplay.from_estimator(fitted)
    assert len(arrows(display.ax_)) == (fitted.links_.verdict == "influence").sum() == 1


def test_graph_draws_undecided_pairs_only_when_asked():
    links = pd.DataFrame(
        {
            "cause": ["a", "b"],
            "effect": ["b", "a"],
            "strength": [1.0, 0.2],
            "verdict": ["influence", "cannot tell"],
        }
    )
    assert len(arrows(LinkGraphDisplay.from_links(links, "ab").ax_)) == 1
    assert len(arrows(LinkGraphDisplay.from_links(links, "ab", undecided=True).ax_)) == 2


def test_spectrum_is_drawn_with_the_measure_of_the_time_domain(fitted):
    display = SpectrumDisplay.from_estimator(fitted, "unit0", "unit2")
    curve, level = display.ax_.get_lines()
    assert curve.get_ydata().tolist() == display.spectrum["measure"].tolist()
    assert level.get_ydata()[0] == display.spectrum.attrs["total"]


def test_pictures_go_into_given_axes(fitted):
    _, ax = plt.subplots()
    assert LinkGraphDisplay.from_estimator(fitted, ax=ax).ax_ is ax
    assert SpectrumDisplay.from_estimator(fitted, "unit0", "unit2", ax=ax).figure_ is ax.figure


def test_every_cell_holds_its_interval():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    est = FederatedGrangerEstimator().fit(X)
    display = LinkMatrixDisplay.from_estimator(est, intervals=0.9)
    labels = {text.get_position(): text.get_text() for text in display.ax_.texts}
    assert len(labels) == 6
    for row in inspection.link_intervals(est, 0.9).itertuples():
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


def test_graph_says_when_a_link_acts_later_than_in_the_next_row():
    columns = {"cause": ["a", "b"], "effect": ["b", "c"], "strength": [0.3, 0.4], "verdict": "influence"}
    links = pd.DataFrame(columns | {"delay": [6.0, 1.0]})
    texts = [text.get_text() for text in LinkGraphDisplay.from_links(links, ["a", "b", "c"]).ax_.texts]
    assert [text for text in texts if "later" in text] == ["30%, 6 rows later"]


def flow(pairs, names):
    return flow_places(names, dict.fromkeys(pairs, 1.0))


def test_a_chain_runs_from_left_to_right():
    place, _ = flow(["ab", "bc", "cd"], "dbca")
    assert [place[name] for name in "abcd"] == [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]


def test_the_weakest_link_of_a_ring_goes_against_the_flow():
    place, _ = flow_places("abc", {("a", "b"): 1.0, ("b", "c"): 1.0, ("c", "a"): 0.1})
    assert place["a"][0] < place["b"][0] < place["c"][0]


def test_without_rings_every_link_points_to_the_right():
    rng = np.random.default_rng(0)
    for _ in range(20):
        pairs = {tuple(sorted(pair)) for pair in rng.integers(0, 15, (25, 2)).tolist() if pair[0] != pair[1]}
        order = rng.permutation(15).tolist()
        place, _ = flow(pairs, order)
        assert all(place[cause][0] < place[effect][0] for cause, effect in pairs)
        assert len(set(place.values())) == len(place)  # no two units in one place


def test_a_long_link_passes_beside_the_unit_between():
    place, halfway = flow([("a", "b"), ("b", "c"), ("a", "c")], "abc")
    assert abs(halfway["a", "c"] - place["b"][1]) >= 1


def test_units_without_links_stand_below_the_others():
    columns = {"cause": ["a"], "effect": ["b"], "strength": [0.3], "verdict": "influence"}
    display = LinkGraphDisplay.from_links(pd.DataFrame(columns), ["a", "b", "c", "d"])
    height = {text.get_text(): text.get_position()[1] for text in display.ax_.texts if text.get_text()}
    assert height["a"] == height["b"] > height["c"] == height["d"]


def test_layouts_are_named(fitted):
    assert LinkGraphDisplay.from_estimator(fitted, layout="circle").figure_ is not None
    with pytest.raises(ValueError, match="'flow', 'circle' or None"):
        LinkGraphDisplay.from_estimator(fitted, layout="spring")


def test_a_matrix_has_a_scale_and_leaves_pairs_without_influence_white():
    columns = {"cause": ["a", "b"], "effect": ["b", "a"], "strength": [0.5, 0.4]}
    links = pd.DataFrame(columns | {"verdict": ["influence", "no influence"]})
    display = LinkMatrixDisplay.from_links(links, ["a", "b"])
    assert [ax.get_ylabel() for ax in display.figure_.axes] == ["effect", "share of what is unpredicted"]
    shown = display.image_.get_array()
    assert (shown[1, 0], shown[0, 1]) == (0.5, 0.0)


def test_one_link_far_beyond_the_others_does_not_set_the_scale_of_colours():
    names = list("abcdef")
    pairs = [(a, b) for a in names for b in names if a != b]
    table = pd.DataFrame(pairs, columns=["cause", "effect"]).assign(strength=0.2, verdict="influence")
    table.loc[0, "strength"] = 18.0
    display = LinkMatrixDisplay.from_links(table, names)
    assert display.image_.norm.vmax == pytest.approx(1.0)
    even = LinkMatrixDisplay.from_links(table.assign(strength=0.2), names)
    assert even.image_.norm.vmax == pytest.approx(0.2)


def test_a_pair_that_is_coupled_both_ways_is_one_line_without_heads():
    columns = {"cause": ["a", "b", "b"], "effect": ["b", "a", "c"], "strength": [0.3, 0.4, 0.2]}
    links = pd.DataFrame(columns | {"verdict": ["coupled", "coupled", "influence"]})
    display = LinkGraphDisplay.from_links(links, ["a", "b", "c"])
    arrows = [text.arrow_patch for text in display.ax_.texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 2
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["influence", "coupled"]
