"""``python -m skfedcausal demo``: the main job on an embedded simulated plant."""

from ..demo import run_demo
from ._shared import parser


def main(arguments):
    """Learn the links of a simulated plant and save a picture of them."""
    reader = parser(
        "demo",
        "Learn which unit of a simulated plant drives which, without pooling its data.",
        settings=False,
        json=False,
    )
    reader.add_argument("--seed", type=int, default=0, help="seed of the simulated plant")
    reader.add_argument("--out", default=".", help="folder for the picture (default: this one)")
    options = reader.parse_args(arguments)
    print(run_demo(seed=options.seed, folder=options.out))
    return 0
