import os
from pathlib import Path

import pandas as pd
import pytest


@pytest.fixture
def public_data():
    """Path of a public dataset's folder below SKFEDCAUSAL_DATA; skips where there is none."""

    def folder(name):
        root = os.environ.get("SKFEDCAUSAL_DATA")
        if root is None:
            pytest.skip("SKFEDCAUSAL_DATA is not set: no folder with public datasets to read")
        path = Path(root) / name
        if not path.is_dir():
            pytest.skip(f"SKFEDCAUSAL_DATA has no folder {name!r}")
        return path

    return folder


@pytest.fixture
def write_csv():
    """Writes CSV files from dicts of columns, compressed where a name ends with ``_gz``."""

    def write(path, **tables):
        for name, columns in tables.items():
            ending = ".csv.gz" if name.endswith("_gz") else ".csv"
            pd.DataFrame(columns).to_csv(path / (name.removesuffix("_gz") + ending), index=False)
        return path

    return write
