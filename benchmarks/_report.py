"""Markdown tables and the conditions under which their numbers were measured."""

import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path
from time import process_time

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "statsmodels", "pandas")


def table(rows, columns=None):
    """Markdown table of rows given as dicts with the same keys."""
    columns = list(columns or rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row.get(name, "")) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def conditions():
    """Machine, versions, date and command as a markdown list."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    command = " ".join(["python -m", _module(), *sys.argv[1:]])
    return "\n".join(
        [
            f"- command: `OMP_NUM_THREADS={threads} {command}`",
            f"- machine: {_processor()}, {os.cpu_count()} cores, {platform.system()}",
            f"- versions: Python {platform.python_version()}, {packages}",
            f"- date: {date.today().isoformat()}",
        ]
    )


def facts(command):
    """Command, commit, processor, versions and date of what is computed now, by name."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return {
        "command": f"`OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'not set')} {command}`",
        "commit": _commit(),
        "processor": _processor(),
        "versions": f"Python {platform.python_version()}, {packages}",
        "date": date.today().isoformat(),
    }


def _commit():
    """The last commit of the package, and whether files of the package were changed after it."""
    return _git("log", "-1", "--format=%h", "--", "skfedcausal") + " with changes" * bool(
        _git("status", "--porcelain", "skfedcausal")
    )


def _git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=RESULTS.parent.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _module():
    path = Path(sys.argv[0])
    if path.suffix != ".py":
        return path.name
    inside = path.parts[path.parts.index("benchmarks") :] if "benchmarks" in path.parts else path.parts[-1:]
    return ".".join([*inside[:-1], path.stem])


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write(name, title, *sections):
    """Print a report and write it to ``results/<name>.md``."""
    text = "\n\n".join([f"# {title}", conditions(), *sections]) + "\n"
    print(text)
    path = RESULTS / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def mean_and_error(values, digits=3):
    """Mean and standard error as text."""
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return f"{mean:.{digits}f}"
    error = (sum((x - mean) ** 2 for x in values) / (n - 1) / n) ** 0.5
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def side_by_side(functions, turns):
    """Least processor seconds and the last answer of every function by name, measured in turns.

    A busy machine disturbs all of them alike, so that ratios can be compared where seconds cannot.
    """
    seconds, answers = dict.fromkeys(functions, float("inf")), {}
    for _ in range(turns):
        for name, function in functions.items():
            begin = process_time()
            answers[name] = function()
            seconds[name] = min(seconds[name], process_time() - begin)
    return seconds, answers
