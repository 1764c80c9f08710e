"""Pictures of small and of large plants: what they draw, and that no label lies on another."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import (
    EffectDisplay,
    FalseAlarmDisplay,
    IncidentDisplay,
    LinkGraphDisplay,
    LinkMatrixDisplay,
    LossDisplay,
    PrivacyCurveDisplay,
    ResidualDisplay,
    StateCorrelationDisplay,
    TransferFunctionDisplay,
)
from skfedcausal.displays._base import COLOURS, line_look, short

plt = pytest.importorskip("matplotlib.pyplot")
SIZES = (2, 24)


def names_of(n):
    return [f"unit {k} of a rather large plant" for k in range(n)]


def links(n):
    pairs = [(cause, effect) for cause in names_of(n) for effect in names_of(n) if cause != effect]
    frame = pd.DataFrame(pairs, columns=["cause", "effect"])
    return frame.assign(strength=np.linspace(0, 1, len(frame)), verdict="influence")


def losses(n):
    columns = pd.MultiIndex.from_product([["client", "server"], names_of(n)])
    return pd.DataFrame(np.exp(-np.linspace(0, 3, 50))[:, None] * np.arange(1, 2 * n + 1), columns=columns)


def incident(n):
    path = [(name, 3 * k) for k, name in enumerate(names_of(n)[:6])]
    ranking = [(name, 1 / n) for name in names_of(n)]
    row = {"start": 40, "detected": 45, "end": np.nan, "root": path[0][0], "path": path, "ranking": ranking}
    levels = np.abs(np.random.default_rng(0).standard_normal((120, n)))
    times = pd.date_range("2026-06-14 23:50", periods=120, freq="10s")
    return IncidentDisplay(levels, tuple(names_of(n)), pd.Series(row), times)


def whatif(n):
    time = pd.date_range("2026-06-14", periods=40, freq="1min")
    parts = []
    for k, name in enumerate(names_of(n)):
        effect = np.full(40, float(k))
        wave = np.sin(np.arange(40))
        part = {"time": time, "column": f"{name}__a_long_tag_name", "factual": wave, "effect": effect}
        parts.append(pd.DataFrame(part | {"counterfactual": wave + k, "low": wave, "high": wave + 2 * k}))
    return pd.concat(parts, ignore_index=True)


def effects(n):
    columns = [f"{name}__tag" for name in names_of(n)]
    frame = pd.DataFrame(np.ones((10, n)), columns=columns, index=pd.RangeIndex(1, 11, name="step"))
    return frame, 0.1 * frame


def states(n):
    slices = {name: slice(2 * k, 2 * k + 2) for k, name in enumerate(names_of(n))}
    return StateCorrelationDisplay(np.eye(2 * n), slices, 1)


DRAWN = {
    "links": lambda n: LinkMatrixDisplay.from_links(links(n), names_of(n)),
    "losses": lambda n: LossDisplay(losses(n)).plot(),
    "residuals": lambda n: ResidualDisplay(
        pd.DataFrame(np.ones((n, 4)), index=names_of(n), columns=["client", "augmented", "server", "oracle"])
    ).plot(),
    "states": lambda n: states(n).plot(),
    "transfer": lambda n: TransferFunctionDisplay(
        0.9 * np.exp(1j * np.arange(n)),
        np.array([3.0, 0.2 + 0j]),
        np.geomspace(0.01, 3, 30),
        np.ones((30, n)),
    ).plot(),
    "what-if": lambda n: EffectDisplay.from_whatif(whatif(n)),
    "effect": lambda n: EffectDisplay.from_effect(*effects(n)),
    "incident": lambda n: incident(n).plot(),
    "alarms": lambda n: FalseAlarmDisplay(
        *(np.array(x) for x in ([1e-3, 1e-2], [0.0, 2e-2], [0.0, 1e-2], [2e-3, 4e-2]))
    ).plot(),
    "privacy": lambda n: PrivacyCurveDisplay(
        pd.DataFrame({"epsilon": [1, 10], "links_kept": [0, 1], "forecast_error": [2.0, 0.5]})
    ).plot(),
}


def boxes(figure):
    """Boxes of all labels at the ticks of each axis, of titles and of what stands at the axes."""
    renderer = figure.canvas.get_renderer()
    groups = []
    for ax in figure.axes:
        if not ax.axison:
            continue
        for axis in (ax.xaxis, ax.yaxis):
            low, high = axis.get_view_interval()
            labels = [
                tick.label1
                for tick in axis.get_major_ticks()
                if tick.label1.get_text()
                and tick.label1.get_visible()
                and min(low, high) <= tick.get_loc() <= max(low, high)
            ]
            groups.append([label for label in labels if label.get_rotation() == 0])
    texts = [[t.get_window_extent(renderer) for t in group] for group in groups]
    titles = [ax.title.get_window_extent(renderer) for ax in figure.axes if ax.title.get_text()]
    return texts, titles


@pytest.mark.parametrize("n", [2, 7, 10])
def test_names_on_the_circle_of_a_graph_stand_apart(n):
    display = LinkGraphDisplay.from_links(links(n), names_of(n))
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.ax_.texts if "%" not in text.get_text() and text.get_text()]
    assert len(boxes) == n
    assert not any(box.overlaps(other) for k, box in enumerate(boxes) for other in boxes[:k])
    plt.close("all")


@pytest.mark.parametrize("n", [11, 24, 60])
def test_names_around_a_graph_stand_a_line_apart(n):
    display = LinkGraphDisplay.from_links(links(n).iloc[:0], names_of(n))
    display.figure_.canvas.draw()
    texts = [text for text in display.ax_.texts if text.get_text()]
    starts = display.ax_.transData.transform([text.get_position() for text in texts])
    apart = np.linalg.norm(starts - np.roll(starts, 1, axis=0), axis=1)
    line = min(text.get_fontsize() for text in texts) * display.figure_.dpi / 72
    assert apart.min() > line
    for text in texts:
        box, whole = text.get_window_extent(), display.figure_.bbox
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert whole.y0 <= box.y0
        assert box.y1 <= whole.y1
    plt.close("all")


@pytest.mark.medium
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("which", DRAWN)
def test_no_label_lies_on_another_or_outside(which, n):
    display = DRAWN[which](n)
    figure = display.figure_
    figure.canvas.draw()
    groups, titles = boxes(figure)
    for group in [*groups, titles]:
        for k, box in enumerate(group):
            assert not any(box.overlaps(other) for other in group[:k])
    whole = figure.bbox
    for box in [box for group in groups for box in group] + titles:
        assert whole.x0 - 1 <= box.x0
        assert box.x1 <= whole.x1 + 1
        assert whole.y0 - 1 <= box.y0
        assert box.y1 <= whole.y1 + 1
    plt.close("all")


def test_series_can_be_told_apart():
    looks = [tuple(line_look(k).values()) for k in range(28)]
    assert len(set(looks)) == 28
    grey = [
        sum(w * int(c[i : i + 2], 16) for w, i in zip((0.299, 0.587, 0.114), (1, 3, 5), strict=True)) for c in COLOURS
    ]
    assert min(abs(a - b) for k, a in enumerate(grey) for b in grey[:k]) > 2  # also without colour, in part


def test_names_are_shortened_in_the_middle():
    assert short("boiler") == "boiler"
    assert short("a very long unit name", 9) == "a ve…name"


@pytest.mark.parametrize("high", [0.0, 1e-3])
def test_a_detector_without_any_false_alarm_is_drawn_at_the_floor(high):
    display = FalseAlarmDisplay(*(np.array([x]) for x in (1e-3, 0.0, 0.0, high))).plot()
    (drawn,) = [line for line in display.ax_.get_lines() if line.get_label() == "no alarm at all"]
    assert drawn.get_ydata().tolist() == [0.2 * 1e-3]
    plt.close("all")


def test_arrows_follow_the_path():
    display = incident(5).plot()
    arrows = [a for a in display.ax_.texts if getattr(a, "arrow_patch", None) is not None]
    assert [arrow.xy[0] for arrow in arrows] == [43, 46, 49, 52]
    plt.close("all")


def test_losses_need_a_trained_server():
    X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    with pytest.raises(ValueError, match="A LikelihoodServer has no losses"):
        LossDisplay.from_estimator(FederatedGrangerEstimator().fit(X))


def test_axes_that_are_given_are_used():
    _, axes = plt.subplots(1, 3)
    assert LossDisplay(losses(2)).plot(ax=axes[0], title="t").ax_ is axes[0]
    assert incident(3).plot(ax=axes[1], title="t").ax_ is axes[1]
    states(2).plot(ax=axes[2], title="t")
    assert [ax.get_title() for ax in axes] == ["t", "t", "t"]
    plt.close("all")


@pytest.mark.medium
def test_effects_are_drawn_of_an_estimator():
    from skfedcausal import FederatedCounterfactualEstimator

    X, truth = make_granger_plant(2, n_samples=300, n_inputs=1, random_state=0)
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    drawn = EffectDisplay.from_estimator(estimator, "unit0", 0.0, 1.0, horizon=5, columns=["unit0__x0"])
    effect = estimator.counterfactual("unit0", 0.0, 1.0, horizon=5)["unit0__x0"]
    np.testing.assert_array_equal(drawn.table.loc[drawn.table["column"] == "unit0__x0", "effect"], effect)
