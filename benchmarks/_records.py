"""Where recorded plants lie, and which are missing."""

import os
from pathlib import Path


def folder_of():
    """Folder of the records."""
    return Path(os.environ.get("SKFEDCAUSAL_DATA", "records"))


def no_records(subfolders):
    """Why none of the records can be read; empty if one of them is there."""
    if any((folder_of() / name).is_dir() for name in subfolders):
        return ""
    return f"none of {', '.join(subfolders)} is in the folder {folder_of()} (SKFEDCAUSAL_DATA)"
