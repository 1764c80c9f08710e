"""``python -m skfedcausal``: the main job on an embedded simulated plant."""

import argparse
import sys

from ._version import __version__
from .demo import run_demo


def main(arguments=None):
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, default=None
        None takes those of the process.

    Returns
    -------
    int
        Exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m skfedcausal",
        description="Learn which unit of a simulated plant drives which, without pooling its data.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulated plant")
    parser.add_argument("--out", default=".", help="folder for the picture (default: this one)")
    options = parser.parse_args(arguments)
    print(run_demo(seed=options.seed, folder=options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
