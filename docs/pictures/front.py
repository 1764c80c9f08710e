"""The pictures of the front page: ``python docs/pictures/front.py`` writes ``docs/_static/front*.png``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, FederatedRCADetector
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import IncidentDisplay, LinkGraphDisplay

UNITS = ["boiler", "turbine", "water", "cooling", "dosing"]
LINKS = [(4, 2), (2, 0), (0, 1), (1, 3), (3, 2), (0, 3)]
QUESTIONS = ("Which unit drives which?", "Where did it start?", "What would have happened?")


def simulated(n_samples, **inputs):
    """A plant with known links."""
    drawn = {"links": LINKS, "link_strength": 0.4, "random_state": 1}
    return make_granger_plant(5, names=UNITS, n_samples=n_samples, **drawn, **inputs)


def draw_links(ax):
    """Links learned from one message per unit."""
    X, _ = simulated(4000)
    LinkGraphDisplay.from_estimator(FederatedGrangerEstimator().fit(X), ax=ax)
    ax.set_aspect("auto")


def draw_incident(ax):
    """A fault in one unit that reaches others."""
    X, _ = simulated(5000)
    detector = FederatedRCADetector().fit({name: Y[:4000] for name, Y in X.items()})
    faulty = {name: Y[4000:].copy() for name, Y in X.items()}
    faulty["boiler"][500:560] += 2 * faulty["boiler"].std(axis=0)
    incidents = detector.incidents(faulty)
    IncidentDisplay.from_detector(detector, faulty, incidents[incidents["detected"] >= 495].iloc[0], ax=ax)


def draw_whatif(ax):
    """Effect of an input of one unit on another."""
    X, truth = simulated(4000, n_inputs=1, input_links=[(0, 1)], input_strength=0.6)
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    effect, std = estimator.counterfactual("boiler", 0.0, 1.0, horizon=15, return_std=True)
    column = effect.filter(like="turbine").abs().max().idxmax()
    steps, mean, half = np.arange(1, 16), effect[column], 1.645 * std[column]
    ax.fill_between(steps, mean - half, mean + half, color="#D55E00", alpha=0.25, linewidth=0)
    ax.plot(steps, mean, color="#D55E00", label="turbine, with 90 % band")
    ax.axhline(0, color="0.5", linewidth=0.8)
    ax.set(xlabel="steps after the boiler's valve opens by one", ylabel="effect")
    ax.legend(frameon=False, fontsize="small")


def write(folder):
    """Write one picture for each question, and one of all of them for the README."""
    drawn = (draw_links, draw_incident, draw_whatif)
    for name, draw, question in zip(("links", "incident", "whatif"), drawn, QUESTIONS, strict=True):
        figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
        draw(ax)
        ax.set_title(question, fontsize="large", fontweight="bold")
        figure.savefig(folder / f"front-{name}.png", dpi=90)
        plt.close(figure)
    figure, axes = plt.subplots(1, 3, figsize=(14, 3.9), layout="constrained", width_ratios=(1.3, 1.1, 1))
    for ax, draw, question in zip(axes, drawn, QUESTIONS, strict=True):
        draw(ax)
        ax.set_title(question, fontsize="large", fontweight="bold")
    figure.savefig(folder / "front.png", dpi=100)


if __name__ == "__main__":
    write(Path(__file__).parents[1] / "_static")
