"""``python -m skfedcausal key``: make a key that a site shares with its server."""

from pathlib import Path

from ..federation.envelope import write_key
from ._shared import answer, parser


def main(arguments):
    """Make a key."""
    reader = parser("key", "Make a key for a site.", settings=False)
    reader.add_argument("path", type=Path, help="file to write; must not exist")
    options = reader.parse_args(arguments)
    return answer(
        options,
        lambda: {"key": str(write_key(options.path))},
        lambda result: f"{result['key']}: bring a copy to the server by a way that you trust.",
    )
