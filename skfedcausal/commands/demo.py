"""``python -m skfedcausal demo``: the main job on an embedded simulated plant."""

import argparse

from ..demo import run_demo


def main(arguments):
    """Learn the links of a simulated plant and save a picture of them.

    Parameters
    ----------
    arguments : list of str

    Returns
    -------
    int
        Exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m skfedcausal demo",
        description="Learn which unit of a simulated plant drives which, without pooling its data.",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulated plant")
    parser.add_argument("--out", default=".", help="folder for the picture (default: this one)")
    options = parser.parse_args(arguments)
    print(run_demo(seed=options.seed, folder=options.out))
    return 0
