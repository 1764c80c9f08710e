"""``python -m skfedcausal demo``: the main job on an embedded simulated plant with known links."""

import time
from pathlib import Path

import numpy as np

from .. import inspection
from ..datasets import make_granger_plant
from ..estimators.granger import FederatedGrangerEstimator
from ..optional import import_optional
from ._shared import add_options, parser

_UNITS = ("boiler", "turbine", "water", "cooling", "dosing", "storage")
_PICTURE = "skfedcausal_plant.png"


def main(arguments):
    """Learn the links of a simulated plant and save a picture of them."""
    described = "Learn the links of a simulated plant without pooling its data."
    reader = parser("demo", described, settings=False, json=False)
    add_options(reader, "demo")
    options = reader.parse_args(arguments)
    print(run_demo(seed=options.seed, folder=options.out))
    return 0


def run_demo(seed=0, folder="."):
    """Simulate a plant, learn its links, compare them with the truth; a report, and a picture in `folder`."""
    X, truth = make_granger_plant(len(_UNITS), names=_UNITS, n_samples=5000, n_links=8, random_state=seed)
    started = time.perf_counter()
    estimator = FederatedGrangerEstimator().fit(X)
    seconds = time.perf_counter() - started
    table = compare_links(estimator.links_, truth.links)
    sent = estimator.communication_
    picture = _draw(estimator, truth, Path(folder))
    shown, is_true = table["verdict"] == "influence", table["truth"] > 0
    lines = [
        f"A plant of {len(_UNITS)} units, {sum(Y.shape[1] for Y in X.values())} sensors, 5000 time steps.",
        f"Learned from one message per unit in {seconds:.2f} s. Raw measurements stayed at the units.",
        "",
        table[is_true | shown].to_string(index=False, float_format=lambda x: f"{x:.3g}"),
        "",
        f"Links found: {(shown & is_true).sum()} of {is_true.sum()}, links that do not exist: "
        f"{(shown & ~is_true).sum()} (of {(~is_true).sum()} pairs without one).",
        f"Oracle gap (relative distance to a central fit on all raw data): {inspection.oracle_gap(estimator, X):.1e}",
        f"Sent to the server: {sent['bytes_up']:,} bytes, {sent['bytes_up'] / sent['raw_bytes']:.1%} of the "
        f"{sent['raw_bytes']:,} bytes of raw data, in {sent['rounds']} round.",
        picture,
    ]
    return "\n".join(lines)


def compare_links(links, truth):
    """Estimated links beside true strengths, in the simulator's states; strongest evidence first."""
    truth = truth.loc[truth["kind"] == "state", ["cause", "effect", "strength"]].rename(columns={"strength": "norm"})
    merged = links.merge(truth, on=["cause", "effect"], how="left", suffixes=("", "_true"))
    columns = ["cause", "effect", "norm", "stderr", "p_adjusted", "verdict"]
    table = merged[columns].assign(truth=merged["norm_true"].fillna(0.0))
    return table.sort_values("p_adjusted", ignore_index=True)


def _draw(estimator, truth, folder):
    """Save the picture; returns a line that says where it is."""
    from ..displays import LinkMatrixDisplay

    try:
        import_optional("matplotlib", "plot", "The picture").use("Agg")
        plt = import_optional("matplotlib.pyplot", "plot", "The picture")
    except ImportError as error:
        return f"No picture: {error}"
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    true_links = truth.links[truth.links["kind"] == "state"].rename(columns={"strength": "norm"})
    learned = estimator.links_.drop(columns="strength")  # norms of blocks, as the truth has them
    displays = (
        LinkMatrixDisplay.from_links(true_links, estimator.client_names_, ax=left, title="true links"),
        LinkMatrixDisplay.from_links(learned, estimator.client_names_, ax=right, title="learned links (● influence)"),
    )
    top = max(np.nanmax(display.strength) for display in displays)
    for display in displays:
        display.image_.set_clim(0, top)
    path = folder / _PICTURE
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return f"Picture: {path.resolve()}"
