"""Asks what is to be asked, in this process or in several."""

import logging
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from multiprocessing import get_context

from .compare import differing_bits
from .packed import packed
from .questions import plants_of


@dataclass
class Answered:
    """What came of a plant's questions: answers as they are stored, those that another way gave other bits, errors."""

    answers: dict = field(default_factory=dict)
    same: list = field(default_factory=list)
    other_bits: dict = field(default_factory=dict)
    errors: dict = field(default_factory=dict)
    numpy_warnings: list = field(default_factory=list)

    def add(self, other):
        """Take in what came of other questions."""
        for name in ("answers", "other_bits", "errors"):
            getattr(self, name).update(getattr(other, name))
        self.same += other.same
        self.numpy_warnings += other.numpy_warnings


def asked(name, patterns):
    """Whether an answer is to be given: with no pattern every one is."""
    return not patterns or any(fnmatchcase(name, pattern) or pattern in name for pattern in patterns)


def answered(plants, patterns=(), jobs=1):
    """Answers of all plants, {(group, number of the plant): ...} turned into one in their order."""
    tasks = [(group, k, patterns) for group, k in plants]
    found = Answered()
    if jobs == 1:
        each = map(_answers_of, tasks)
    else:
        pool = ProcessPoolExecutor(jobs, get_context("spawn"))
        each = pool.map(_answers_of, tasks)
    for part in each:
        found.add(part)
    if jobs != 1:
        pool.shutdown()
    return found


def _answers_of(task):
    """Answers of one plant; nothing is fitted of which nothing is asked."""
    group, number, patterns = task
    logging.disable()  # of units that are lost on purpose
    plant, found = plants_of(group)[number], Answered()
    wanted = [name for name in plant.answers() if asked(name, patterns)]
    if not wanted:
        return found
    here = _fitted(plant, None, plant.name, found)
    kept = {}
    for question in (*plant.questions, *plant.here):
        name = f"{plant.name}: {question}"
        ways = [way for way in plant.ways if f"{name} {way}" in wanted] if question in plant.questions else []
        if here is not None and (name in wanted or ways):
            kept[question] = _answer(plant, question, here, name, found)
            if kept[question] is not None and name in wanted:
                found.answers[name] = {path: packed(leaf, path) for path, leaf in kept[question].items()}
    for way in plant.ways:
        questions = [question for question in plant.questions if f"{plant.name}: {question} {way}" in wanted]
        there = _fitted(plant, way, f"{plant.name} {way}", found) if questions else None
        for question in questions if there is not None else ():
            _compare_way(plant, question, way, there, kept.get(question), found)
    return found


def _compare_way(plant, question, way, there, expected, found):
    """Whether a question has the same bits by another way."""
    name = f"{plant.name}: {question} {way}"
    other = _answer(plant, question, there, name, found)
    if expected is None or other is None:
        return
    difference = differing_bits(expected, other)
    if difference is None:
        found.same.append(name)
    else:
        found.other_bits[name] = str(difference)


def _fitted(plant, way, name, found):
    try:
        fitted = plant.fitted(way)
    except Exception:
        found.errors[f"{name}: fit"] = traceback.format_exc()
        return None
    found.numpy_warnings += _of_numpy(f"{name}: fit", fitted.warned)
    return fitted


def _answer(plant, question, fitted, name, found):
    try:
        answer, warned = plant.ask(question, fitted)
    except Exception:
        found.errors[name] = traceback.format_exc()
        return None
    found.numpy_warnings += _of_numpy(name, warned)
    return answer


def _of_numpy(name, warned):
    """Warnings of arithmetic that left the library, with their places."""
    return [
        f"{name}: {entry.category.__name__}: {entry.message} ({entry.filename}:{entry.lineno})"
        for entry in warned
        if issubclass(entry.category, RuntimeWarning) or entry.category.__name__ == "LinAlgWarning"
    ]
