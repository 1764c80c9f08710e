"""Maps of the links of many units."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal.displays import LinkMapDisplay, link_communities

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def cliques(n_cliques=3, size=4):
    """Cliques of units, each tied to the next by one weak link."""
    names = [f"u{k:03d}" for k in range(n_cliques * size)]
    rows = []
    for clique in range(n_cliques):
        own = names[clique * size : (clique + 1) * size]
        rows += [(a, b, 0.2, "influence") for a in own for b in own if a != b]
        if clique:
            rows.append((names[clique * size - 1], own[0], 0.05, "influence"))
    rows.append((names[0], names[-1], 0.9, "cannot tell"))
    return pd.DataFrame(rows, columns=["cause", "effect", "strength", "verdict"]), names


def test_cliques_are_communities():
    links, names = cliques()
    found = link_communities(links, [*names, "alone"])
    assert found["community"].tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3]
    assert found["size"].tolist() == [4] * 12 + [1]
    np.testing.assert_allclose(found["inside"], [1.2] * 12 + [0.0])
    np.testing.assert_allclose(found["outside"].sum(), 2 * 2 * 0.05)


def test_the_map_has_a_point_for_every_influence():
    links, names = cliques()
    display = LinkMapDisplay.from_links(links, names)
    assert len(display.points_.get_offsets()) == (links["verdict"] == "influence").sum()
    assert display.order_ == names
    assert len(display.ax_.patches) == 3


def test_zooming_in_shows_a_community_and_what_is_linked_to_it():
    links, names = cliques()
    display = LinkMapDisplay.from_links(links, names, units=0)
    assert display.order_ == [*names[:4], names[4]]
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == display.order_
    assert LinkMapDisplay.from_links(links, names, units=[names[0]]).order_ == names[:4]
    with pytest.raises(ValueError, match="number of a community below 3"):
        LinkMapDisplay.from_links(links, names, units=7)


def test_a_thousand_units_are_drawn_without_names():
    links, names = cliques(250)
    display = LinkMapDisplay.from_links(links, names)
    display.figure_.canvas.draw()
    assert not len(display.ax_.get_xticks())
