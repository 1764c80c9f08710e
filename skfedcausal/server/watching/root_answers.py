"""What the two statistics make of a window, and which of them names the root."""

from dataclasses import dataclass

import numpy as np

SURE = 0.8  # probability from which a kind of fault is stated
_TOGETHER = 16  # windows whose likelihood ratios stay in cache


@dataclass(frozen=True)
class Answer:
    """What one statistic makes of an incident."""

    statistic: str
    evidence: float
    probability: np.ndarray
    start: int
    kind: str = ""
    explains: bool = False


@dataclass(frozen=True)
class Look:
    """Rows by which an incident is judged.

    Attributes
    ----------
    begin, detected : int
        First row, and the last one in which what happened may have started.
    ends : tuple of int
        Rows after the last of the windows in which the fault may have gone on.
    """

    begin: int
    detected: int
    ends: tuple


def shift_answers(posterior, series, looks):
    """Answers of the shift statistic, those to windows with as many onsets together.

    Parameters
    ----------
    posterior : RootPosterior
    series : callable
        ``series(begin, end)`` gives what :meth:`RootPosterior.from_shift` needs of these rows.
    looks : sequence of Look

    Returns
    -------
    list of list of Answer
        To every look, in the order of its ends.
    """
    answers, alike = [[] for _ in looks], {}
    for look, found in zip(looks, answers, strict=True):
        windows = alike.setdefault(look.detected - look.begin + 1, [])
        windows += [(found, look.begin, end) for end in look.ends]
    for n_onsets, windows in alike.items():
        for k in range(0, len(windows), _TOGETHER):
            some = windows[k : k + _TOGETHER]
            shifts = posterior.from_shift([series(begin, end) for _, begin, end in some], n_onsets)
            for (found, begin, _), shift in zip(some, shifts, strict=True):
                found.append(shift_answer(shift, begin))
    return answers


def shift_answer(found, begin):
    """Answer of the shift statistic to a window that begins in row `begin`."""
    where = begin + found.onset
    return Answer("shift", found.evidence, found.probability, where, _kind(found), found.explains)


def explained(answers):
    """Those that leave nothing unexplained of what happened."""
    return [answer for answer in answers if answer.explains and answer.evidence > 0]


def deciding(answers):
    """The answer that names the root: one that explains everything if there is any, or all of them; of these
    the one with the most evidence.

    The evidence of a disturbance of any form grows faster with the size of a fault than that of a steady
    one, which knows that the plant is not known exactly. A steady fault that leaves nothing unexplained
    needs no other explanation.
    """
    return max(explained(answers) or answers, key=lambda answer: answer.evidence)


def _kind(found):
    """Name of the kind of fault, empty if what the shift leaves is not nominal or both explain it."""
    if not found.explains or 1 - SURE < found.sensor < SURE:
        return ""
    return "sensor" if found.sensor >= SURE else "process"
