"""How far the reading of a large file is, and whether it fits into memory, which is said before it is read."""

from pathlib import Path

from .tuning import TUNING


class Reading:
    """Share of the file that is being read, None where none is: what a terminal shows."""

    share: float | None = None


def check_size(where, n_rows, n_columns):
    """Refuse what memory cannot hold before it is read."""
    free, needed = free_memory(), TUNING.reading_copies * 8 * n_rows * n_columns
    if free is not None and needed > free:
        raise ValueError(
            f"{where} has about {n_rows} rows of {n_columns} columns, which take {needed / 1e9:.3g} GB of memory, and "
            f"{free / 1e9:.3g} GB are free. Read fewer columns: columns=['FT101', 'boiler.*'] (--columns), or a part "
            "of its rows."
        )


def free_memory():
    """Bytes of memory that are free, of the machine and of what this process may take; None where nothing tells."""
    told = [_number_in("/proc/meminfo", "MemAvailable:", 1024), _left_of_group("/sys/fs/cgroup")]
    return min((size for size in told if size is not None), default=None)


def _left_of_group(folder):
    """Bytes that a container leaves, None without a limit."""
    most, used = (_number_in(f"{folder}/memory.{name}", "", 1) for name in ("max", "current"))
    return None if most is None or used is None else max(most - used, 0)


def _number_in(path, word, size):
    """Number behind a word in a file of the system, times a size; None where there is none."""
    try:
        behind = Path(path).read_text().partition(word)[2] if word else Path(path).read_text()
        return int(behind.split()[0]) * size
    except (OSError, ValueError, IndexError):
        return None
