"""Pictures of curved links: what is drawn is what the table holds."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from skfedcausal import FederatedGrangerEstimator, inspection
from skfedcausal.displays import LinkShapeDisplay


@pytest.fixture(scope="module")
def fitted():
    """One unit acts on a second along a kink, and on a third by a product with that one's state."""
    rng = np.random.default_rng(0)
    h = rng.normal(size=(1500, 3))
    for t in range(1, len(h)):
        h[t] += 0.5 * h[t - 1]
        h[t, 1] += np.abs(h[t - 1, 0])
        h[t, 2] += 0.6 * h[t - 1, 0] * np.tanh(h[t - 1, 2])
    X = {f"u{m}": np.outer(x, [1.0, 0.5]) + 0.1 * rng.normal(size=(len(h), 2)) for m, x in enumerate(h.T)}
    return FederatedGrangerEstimator().fit(X)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_a_curve_its_band_and_the_line_are_drawn(fitted):
    ax = LinkShapeDisplay.from_estimator(fitted, "u0", "u1").ax_
    curve, line = ax.get_lines()
    shape = inspection.link_shape(fitted, "u0", "u1")
    assert curve.get_ydata().tolist() == shape["adds"].tolist()
    assert line.get_ydata().tolist() == shape["line"].tolist()
    assert len(ax.collections) == 1
    assert ax.get_title() == "u0 → u1"


def test_a_product_has_a_curve_at_a_low_and_one_at_a_high_value_of_the_other_state(fitted):
    _, ax = plt.subplots()
    display = LinkShapeDisplay.from_estimator(fitted, "u0", "u2", ax=ax)
    assert display.ax_ is ax
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [word.startswith("curve, u2 at ") for word in words] == [True, True, False]
    assert words[-1] == "line"
