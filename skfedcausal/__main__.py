"""``python -m skfedcausal``: the main job on an embedded simulated plant, or one of the commands."""

import argparse
import sys

from ._version import __version__
from .commands import COMMANDS, program, run_command


def main(arguments=None):
    """Run the command line; the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    first = arguments[0] if arguments else "demo"
    if first in COMMANDS:
        return run_command(first, arguments[1:])
    if not first.startswith("-") or first in ("-h", "--help", "--version"):
        _parser().parse_args([first])  # tells what it was asked for, or what is wrong, and exits
    return run_command("demo", arguments)


def _parser():
    parser = argparse.ArgumentParser(
        prog=program(),
        description="Without a command: the demonstration.",
        epilog="commands:\n" + "\n".join(f"  {name:10}{text}" for name, (_, text) in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("command", nargs="?", choices=list(COMMANDS), help="one of those below, with --help")
    return parser


if __name__ == "__main__":
    sys.exit(main())
