"""Answers of fits that were saved, loaded in another process and asked there: every bit of what the fit answers."""

import logging
import multiprocessing
import traceback
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from skfedcausal import load, save

from ..client._reference import Unit
from .compare import differing_bits
from .plants import Fitted
from .questions import plants_of
from .questions.seldom import Box
from .run import Answered, asked
from .seeds import seed

_AT_THE_USER = {"transport": "communication__transport", "privacy": "privacy"}  # what no file holds, and who sets it


def answered_through_files(groups, patterns=()):
    """What came of the questions of groups, each group saved here and asked in a new process."""
    found = Answered()
    logging.disable()  # of units that are lost on purpose
    for group in groups:
        with TemporaryDirectory() as folder:
            here, warned = _saved(group, patterns, Path(folder), found)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                there, errors = pool.apply(_answers_there, (group, patterns, Path(folder), warned))
        found.errors |= errors
        for name, answer in here.items():
            difference = differing_bits(answer, there[name]) if name in there else "has no answer"
            if difference is None:
                found.same.append(name)
            else:
                found.other_bits[name] = str(difference)
    logging.disable(logging.NOTSET)
    return found


def _plants(group, patterns):
    """Plants of which something is asked, with their numbers and these questions by the names of the answers."""
    for k, plant in enumerate(plants_of(group)):
        names = {f"{plant.name}: {question}": question for question in (*plant.questions, *plant.here)}
        wanted = {name: question for name, question in names.items() if asked(name, patterns)}
        if wanted:
            yield k, plant, wanted


def _saved(group, patterns, folder, found):
    """Answers of the fits here, each saved before it is asked, and what the fits warned of by the plant's number."""
    answers, warned = {}, {}
    for k, plant, wanted in _plants(group, patterns):
        try:
            fitted = plant.fitted()
            _save(fitted.estimator, folder / f"{k}")
            warned[k] = [(entry.category, str(entry.message)) for entry in fitted.warned]
            answers |= {name: plant.ask(question, fitted)[0] for name, question in wanted.items()}
        except Exception:
            found.errors[f"{plant.name} here"] = traceback.format_exc()
    return answers, warned


def _save(estimator, path):
    """Save an estimator without what stays at the user, who keeps it on."""
    kept = _at_the_user(estimator)
    save(estimator.set_params(**dict.fromkeys(kept)), path, own=_own(estimator))
    estimator.set_params(**kept)


def _at_the_user(estimator):
    """What stays at the user of an estimator, as parameters that are set again."""
    return {setting: getattr(estimator, name) for name, setting in _AT_THE_USER.items() if hasattr(estimator, name)}


def _answers_there(group, patterns, folder, warned):
    """Answers of the files, and errors."""
    logging.disable()
    answers, errors = {}, {}
    for k, plant, wanted in _plants(group, patterns):
        if k not in warned:
            continue
        try:
            fitted = _loaded(plant, folder / f"{k}")
            fitted.warned = [SimpleNamespace(category=kind, message=text) for kind, text in warned[k]]
            answers |= {name: plant.ask(question, fitted)[0] for name, question in wanted.items()}
        except Exception:
            errors[f"{plant.name} through a file"] = traceback.format_exc()
    return answers, errors


def _loaded(plant, path):
    """The fit of a file with the record and what stayed at the user: accounts that have paid for the fit."""
    unfitted = plant.make()
    if getattr(unfitted, "privacy", None) is not None:
        unfitted = plant.fitted().estimator
    seed(plant.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = plant.record().settled()
    estimator = load(path, own=_own(unfitted))
    estimator.set_params(**_at_the_user(unfitted))
    return Fitted(estimator, record.given(), record)


def _own(estimator):
    """Functions among the parameters of an estimator, and classes of the tests, by names."""
    functions = list(dict.fromkeys(_functions(estimator)))
    return {"Box": Box, "Unit": Unit, **{f"function {k}": one for k, one in enumerate(functions)}}


def _functions(value):
    if hasattr(value, "get_params"):
        value = {k: v for k, v in value.get_params(deep=False).items() if k not in _AT_THE_USER}
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _functions(one)
    elif callable(value):
        yield value
