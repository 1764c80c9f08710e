"""Mutation test: change one token of the package at a time and see whether a fast test notices.

``python -m tests.mutations AREA --n 60 --seed 0 1 --jobs 2`` draws changes of the modules of an area
(operators, comparisons, numbers, booleans, min/max), runs the tests nearest to each changed module, then
those of its folder, then further ones of the area, and prints which test caught each and what survived.
Everything happens in temporary copies; the working tree is never touched. A change that hangs counts as
caught.

Changes that cannot matter are listed by hand in ``equivalent.toml``, each with its line before and
after and the reason; they are drawn but not counted, and others take their places.
"""

import argparse
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ._mutants import changes, mutant

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "skfedcausal"
EQUIVALENT = Path(__file__).parent / "equivalent.toml"
_STARTUP = 30.0  # seconds that a run of tests may take beyond four times its own


class Area(NamedTuple):
    """Modules to change, and fast tests of them beyond those that mirror their paths (files or folders)."""

    modules: tuple[str, ...]
    further: tuple[str, ...]


AREAS = {
    "watching": Area(
        ("server/watching", "statespace/detection"),
        (
            "tests/server/watching",
            "tests/server/estimation/test_level_shifts.py",
            "tests/privacy/test_detector.py",
            "tests/test_rca.py",
        ),
    ),
    "privacy": Area(("privacy",), ("tests/privacy", "tests/federation/test_site_privacy.py")),
    "federation": Area(
        ("federation", "message"),
        (
            "tests/federation",
            "tests/client/test_site_privacy.py",
            "tests/test_ledger_of_answers.py",
            "tests/papers/test_dialogue.py",
        ),
    ),
    "numerics": Area(
        ("statespace", "server/estimation", "server/links"),
        (
            "tests/statespace",
            "tests/server/estimation",
            "tests/server/links",
            "tests/server/test_likelihood_server.py",
            "tests/server/test_inputs.py",
            "tests/server/test_large_plants.py",
            "tests/theory/test_unified.py",
            "tests/theory/test_descent.py",
        ),
    ),
}

# -- what is changed -------------------------------------------------------------------------------------


def modules_of(area, root):
    """Modules of an area, paths below the package."""
    found = []
    for path in (root / PACKAGE / place for place in area.modules):
        found += [path] if path.suffix == ".py" else path.rglob("*.py")
    return sorted({str(path.relative_to(root / PACKAGE)) for path in found})


def drawn(area, seed, root):
    """Every change of an area once, in an order that a seed draws."""
    rng = random.Random(seed)
    sources = {module: (root / PACKAGE / module).read_text() for module in modules_of(area, root)}
    places = [(module, change) for module, source in sources.items() for change in changes(source)]
    rng.shuffle(places)
    for module, change in places:
        yield mutant(module, sources[module], change, rng)


def equivalents():
    """Changes that cannot matter: reasons by (module, line, line after the change)."""
    if not EQUIVALENT.exists():
        return {}
    listed = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])
    return {(entry["module"], entry["line"], entry["change"]): entry["why"] for entry in listed}


def stale(modules, root):
    """Lines listed as equivalent that their modules have no more."""
    return [
        f"{module}: {line}"
        for module, line, _ in equivalents()
        if module in modules and line not in map(str.strip, (root / PACKAGE / module).read_text().splitlines())
    ]


# -- tests -----------------------------------------------------------------------------------------------


def stages(module, area, root):
    """Tests to run for a module, nearest first: its own, those of its folder, further ones of the area."""
    path, tests = Path(module), root / "tests"
    folders = [tests / folder for folder in path.parents]
    own = [folder / f"test_{path.stem}.py" for folder in folders]
    own = [str(file.relative_to(root)) for file in own if file.exists()]
    if ">>>" in (root / PACKAGE / module).read_text():
        own.append(f"{PACKAGE}/{module}")
    folder = [str(file.relative_to(root)) for file in sorted(folders[0].glob("test_*.py"))]
    found = []
    for stage in (own, folder, [file for place in area.further for file in _files(place, root)]):
        found.append([file for file in stage if not any(file in before for before in found)])
    return [stage for stage in found if stage]


def _files(place, root):
    """Test files in a folder, or the file itself."""
    path = root / place
    if path.is_dir():
        return [str(file.relative_to(root)) for file in sorted(path.rglob("test_*.py"))]
    return [place] if path.exists() else []


class Workshop:
    """A temporary copy of the package and its tests in which modules are changed and tests are run."""

    def __init__(self, limit):
        self._folder = tempfile.TemporaryDirectory(prefix="mutations-")
        self.root, self._limit, self.seconds = Path(self._folder.name), limit, {}
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split():
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / name)
        # compiled files that are checked by content: a change of the same length in the same second counts
        self._python("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", PACKAGE)
        place = self._python("-c", f"import {PACKAGE}; print({PACKAGE}.__file__)")[1].strip()
        if not place.startswith(str(self.root)):
            raise RuntimeError(f"Tests would import {place} instead of the copy in {self.root}.")

    def close(self):
        """Delete the copy."""
        self._folder.cleanup()

    def _python(self, *arguments, timeout=None):
        """(exit code, output) of a Python process in the copy; (None, "") if it takes too long."""
        environment = os.environ | {
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        return process.returncode, output

    def measure(self, files):
        """Run the tests on the unchanged package; refuses a package whose tests fail."""
        report = self.root / "times.xml"
        code, output = self._python("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *files)
        if code:
            raise RuntimeError(f"Tests fail on the unchanged package:\n{output[-3000:]}")
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.get("classname", "")
            self.seconds[name] = self.seconds.get(name, 0.0) + float(case.get("time", 0))
        return self.seconds

    def _seconds_of(self, file):
        name = file.removesuffix(".py").replace("/", ".")
        return sum(spent for each, spent in self.seconds.items() if each == name or each.startswith(f"{name}."))

    def judge(self, mutated, area):
        """The first test that notices a change, or nothing."""
        path = self.root / PACKAGE / mutated.module
        original = path.read_text()
        path.write_text(mutated.source)
        try:
            for files in stages(mutated.module, area, self.root):
                limit = max(self._limit, _STARTUP + 4 * sum(map(self._seconds_of, files)))
                command = ("-m", "pytest", "-q", "-x", "-rfE", "--no-header", "-p", "no:cacheprovider")
                code, output = self._python(*command, *files, timeout=limit)
                if code is None:
                    return f"no end within {limit:.0f} s"
                if code == 4:
                    raise RuntimeError(f"pytest could not run {files}:\n{output[-2000:]}")
                if code not in (0, 5):  # tests passed, or none there
                    return _noticed(output)
        finally:
            path.write_text(original)
        return ""


def _noticed(output):
    """Name of the test that failed."""
    found = re.search(r"^(?:FAILED|ERROR) (\S+(?:\[[^\]]*\])?)", output, flags=re.MULTILINE)
    return found[1].removeprefix("tests/") if found else "an error on import"


# -- runs ------------------------------------------------------------------------------------------------


def run(area, seed, n, workshops):
    """Changes that survived of n that a seed draws, how many were tried, and how many more were equivalent."""
    known, chosen, n_equivalent = equivalents(), [], 0
    for each in drawn(area, seed, workshops.queue[0].root):
        if len(chosen) == n:
            break
        if (each.module, each.line, each.becomes) in known:
            n_equivalent += 1
        else:
            chosen.append(each)

    def judged(each):
        workshop = workshops.get()
        try:
            caught = workshop.judge(each, area)
        finally:
            workshops.put(workshop)
        print(f"{told(each)}: {caught or 'SURVIVED'}", flush=True)
        return caught

    with ThreadPoolExecutor(workshops.maxsize) as pool:
        survived = [each for each, caught in zip(chosen, pool.map(judged, chosen), strict=True) if not caught]
    return sorted(survived, key=lambda each: (each.module, each.number)), len(chosen), n_equivalent


def told(each):
    """A change in one line."""
    return f"{each.module}:{each.number} `{each.token}`"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("area", choices=sorted(AREAS))
    parser.add_argument("--n", type=int, default=60, help="changes to count")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="one sample for each")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are tested at the same time")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one run of tests")
    parser.add_argument("--modules", nargs="+", help="other modules or folders than those of the area")
    options = parser.parse_args()
    area = AREAS[options.area]
    if options.modules:
        area = area._replace(modules=tuple(options.modules))
    missing = [place for place in area.further if not (ROOT / place).exists()]
    if missing:
        print(f"There is no {', '.join(missing)}; these tests are left out.", flush=True)
    workshops = queue.Queue(options.jobs)
    for _ in range(options.jobs):
        workshops.put(Workshop(options.limit))
    copies = list(workshops.queue)
    root = copies[0].root
    modules = modules_of(area, root)
    files = {file for module in modules for stage in stages(module, area, root) for file in stage}
    for line in stale(modules, root):
        print(f"Listed as equivalent, but no longer there: {line}", flush=True)
    seconds = copies[0].measure(sorted(files, key=lambda file: (file.startswith(PACKAGE), file)))
    for copy in copies:
        copy.seconds = seconds
    for seed in options.seed:
        survived, n, n_equivalent = run(area, seed, options.n, workshops)
        print(f"Seed {seed}: {n - len(survived)} of {n} changes caught, {n_equivalent} more listed as equivalent.")
        print("Survived:" if survived else "None survived.")
        for each in survived:
            print(f"  {told(each)}\n    {each.line}\n    {each.becomes}", flush=True)
    for copy in copies:
        copy.close()


if __name__ == "__main__":
    main()
