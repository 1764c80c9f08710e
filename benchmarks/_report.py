"""The conditions under which figures were measured, and seconds of methods side by side."""

import os
import platform
import subprocess
from datetime import date
from importlib.metadata import version
from pathlib import Path
from time import process_time

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "statsmodels", "pandas")


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


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


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
