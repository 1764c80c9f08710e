"""The command: options, the comparison of all answers, and what is printed of it."""

import argparse
import resource
import time

from ..parts import part_of
from . import store
from .compare import differing
from .questions import GROUPS, plants_of
from .run import answered, asked
from .through_file import answered_through_files
from .tolerances import MAY_MOVE, WIDER, tolerance_of

_NAMED = 12  # answers that are named beside the first one that differs


def parser():
    """Options of the command."""
    found = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__.splitlines()[0])
    found.add_argument("patterns", nargs="*", help="answers to give: parts of their names, or patterns with *")
    found.add_argument("--jobs", type=int, default=1, help="processes that ask at the same time")
    found.add_argument("--part", help="with a comparison, K/N: every N-th group of answers, from the K-th on")
    found.add_argument("--write", action="store_true", help="store the answers instead of comparing them")
    found.add_argument(
        "--through-file", action="store_true", help="save each fit and compare what is answered of the file elsewhere"
    )
    found.add_argument("--list", action="store_true", help="print the names of the answers and their classes")
    found.add_argument("--folder", default=store.FOLDER, help="where stored answers are")
    return found


def main(arguments):
    """Run the command; its exit code."""
    options = parser().parse_args(arguments)
    if options.list:
        return _list(options.patterns)
    try:
        if options.write:
            store.check_committed()
        return _run(options)
    except store.GoldenFileError as error:
        print(error)
        return 2


def _run(options):
    began = time.perf_counter()
    groups = part_of(_groups(options.patterns), options.part)
    if options.through_file:
        found = answered_through_files(groups, options.patterns)
        failures = found.other_bits | _last_lines(found.errors)
        _report(found, failures, time.perf_counter() - began)
        return 1 if failures else 0
    stored = {} if options.write else {group: store.read(group, options.folder) for group in groups}
    tasks = [(group, k) for group in groups for k in range(len(plants_of(group)))]
    found = answered(tasks, options.patterns, options.jobs)
    if options.write:
        failures = found.other_bits | _last_lines(found.errors)
        if not failures:
            _write(groups, found.answers, options)
    else:
        failures = compared(stored, found, options.patterns)
    _report(found, failures, time.perf_counter() - began)
    return 1 if failures or found.numpy_warnings else 0


def _groups(patterns):
    """Groups of which anything is asked."""
    chosen = [g for g in GROUPS if any(asked(name, patterns) for plant in plants_of(g) for name in plant.answers())]
    if not chosen:
        raise store.GoldenFileError(f"No answer has a name like {' or '.join(patterns)}; --list prints them all.")
    return chosen


def compared(stored, found, patterns=()):
    """What differs, by the names of the answers in their order."""
    known = {name: answer for answers in stored.values() for name, answer in answers.items()}
    failures = {}
    for name, answer in found.answers.items():
        if name not in known:
            failures[name] = f"is not stored. {store.HOW_TO_MAKE}"
            continue
        difference = differing(known[name], answer, tolerance_of(name))
        if difference is not None:
            failures[name] = str(difference)
    failures |= found.other_bits
    failures |= _last_lines(found.errors)
    for name in known:
        if asked(name, patterns) and name not in found.answers and name not in failures:
            failures[name] = f"is stored, and nobody asked for it. {store.HOW_TO_MAKE}"
    return failures


def _last_lines(errors):
    return {name: error.strip().splitlines()[-1] for name, error in errors.items()}


def _write(groups, answers, options):
    for group in groups:
        names = {name for plant in plants_of(group) for name in plant.answers()}
        kept = {name: answer for name, answer in answers.items() if name in names}
        if options.patterns and store.path_of(group, options.folder).exists():
            kept = {name: a for name, a in store.read(group, options.folder).items() if name in names} | kept
        store.write(group, kept, options.folder)


def _report(found, failures, wall):
    for warning in found.numpy_warnings:
        print(f"warning of arithmetic: {warning}")
    for name, error in found.errors.items():
        print(f"{name} failed:\n{error}")
    if failures:
        first = next(iter(failures))
        print(f"The first answer that differs is {first!r}: {failures[first]}")
        others = list(failures)[1:]
        named = f": {'; '.join(others[:_NAMED])}" if others else ""
        print(f"{len(others)} others differ{named}{' ...' if others[_NAMED:] else ''}")
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in (own, children))
    n_answers = len(found.answers) + len(found.same) + len(found.other_bits)
    print(
        f"{n_answers} answers ({len(found.answers)} against stored ones, {len(found.same) + len(found.other_bits)} by "
        f"another way, bit for bit), {len(failures)} differ, {len(found.numpy_warnings)} warnings of arithmetic; "
        f"{cpu:.0f} s of CPU, {wall:.0f} s of wall time"
    )


def _list(patterns):
    for group in GROUPS:
        for plant in plants_of(group):
            ways = tuple(plant.ways)
            for name in plant.answers():
                if asked(name, patterns):
                    print(f"{_class_of(name, ways):10} {name}")
    print(f"{len(WIDER)} tolerances of their own and {len(MAY_MOVE)} answers that may move are in tolerances.py")
    return 0


def _class_of(name, ways):
    return "bits" if ways and name.endswith(ways) else "1e-9"
