"""Files that are whole or not there, and names of units as names of files."""

import os
import threading
from pathlib import Path
from urllib.parse import quote


def write_whole(path, data):
    """Write a file that nobody ever reads by half."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def file_name(name):
    """Name of a unit or a run as the name of a file or folder."""
    quoted = quote(name, safe=" ")
    if not quoted or quoted.startswith("."):
        raise ValueError(f"{name!r} cannot name a unit or a run whose packets travel: give letters or digits.")
    return quoted
