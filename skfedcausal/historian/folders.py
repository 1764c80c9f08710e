"""Several files of one record: a folder with one for each tag, for each stretch of time, or for some tags each."""

import re
from pathlib import Path
from urllib.parse import unquote

import pandas as pd

from ..containers.clock import is_numbering
from .archive import table_of
from .forms import ordered
from .times import WORDS


def is_folder(source):
    """Whether a source is a folder of files."""
    return isinstance(source, (str, Path)) and Path(source).is_dir()


def files_of(folder):
    """Files of a folder and the folders in it, in order of their names, without hidden ones."""
    files = [one for one in Path(folder).rglob("*") if one.is_file() and not one.name.startswith((".", "_"))]
    if not files:
        raise ValueError(f"The folder {folder} has no files.")
    in_turns = {path: enumerate(re.split(r"(\d+)", str(path))) for path in files}  # month=2 comes before month=10
    return sorted(files, key=lambda path: [int(part) if k % 2 else part for k, part in in_turns[path]])


def tag_of_folder(path):
    """Tag that a folder of a partitioned table tells, as in ``tag=FT101/part-0.parquet``; None without."""
    keys = (folder.partition("=") for folder in Path(path).parts[:-1])
    return next((unquote(value) for key, _, value in keys if value and key.lower() in WORDS["columns"]["tag"]), None)


def named_by_file(table, texts, measures, path):
    """A table, its columns of texts and measures, in which one called "value" has the name of its file or folder."""
    name = tag_of_folder(path) or (Path(path).stem if Path(path).suffix else Path(path).name)
    new = {column: name for column in (*table.columns, *texts) if column.lower() in WORDS["columns"]["value"]}
    named = {new.get(column, column): measure for column, measure in measures.items()}
    return table.rename(columns=new), tuple(new.get(column, column) for column in texts), named


def together(tables, where, dialect):
    """Tables side by side where each has columns of its own, else below each other; and what was done in words."""
    tables = [table for table in tables if table.shape[1]]
    if not tables:
        raise ValueError(f"No file of {where} holds numbers.")
    columns = set().union(*(table.columns for table in tables))
    if len(tables) == 1 or len(columns) < sum(table.shape[1] for table in tables):
        return pd.concat(tables), ()
    if any(is_numbering(table.index) for table in tables) and len({len(table) for table in tables}) > 1:
        raise ValueError(f"The files of {where} have no times and different numbers of rows; give them times.")
    series = {tag: ordered(table[tag]) for table in tables for tag in table}
    return table_of(series, dialect.hold, dialect.every)
