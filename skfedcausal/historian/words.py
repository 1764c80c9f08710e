"""Words of exports: heads of columns, marks of bad values, months."""

import re
import tomllib
from importlib.resources import files

WORDS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
TIME_NAMES, BAD_TEXTS = WORDS["columns"]["time"], frozenset(WORDS["values"]["bad"])
JOINTS = ".", "_", " ", ":", "/", "-"  # between a tag and the word for its quality
DECIMAL_COMMA = re.compile(r"^[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?$")


def is_told(name):
    """Whether a column holds times, names or qualities, which are read as they are written."""
    name = name.strip().lower()
    plain = {word for role, words in WORDS["columns"].items() if role != "value" for word in words}
    ends = tuple(joint + word for word in WORDS["columns"]["quality"] for joint in JOINTS)
    return name in plain or name.endswith(ends)
