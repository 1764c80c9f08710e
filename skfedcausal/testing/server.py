"""Whether an object can be a server."""

from inspect import isgenerator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from ..client.extended_kalman import ExtendedKalmanClient
from ..client.kalman import KalmanClient
from ..client.worker import UnitWorker
from ..datasets import make_granger_plant
from ..message.requests import Acknowledgement, Ask, RecordRequest
from ..message.schema import Message
from ..message.states import EffectReply, SmoothedReply, StateMessage, StateReply
from ..seeding import seeded
from ._rules import (
    Broken,
    check_parameters,
    check_rules,
    close,
    covariance,
    frozen,
    holds_rows,
    real,
    require,
    same,
    sent,
)

_MOST_QUESTIONS = 1000  # of a server that does not say how many rounds it needs at most
_SIZES = {"mill": 2, "kiln": 1, "fan": 2}
_LOOKED_AT = 3  # questions of a fit that are looked at closely
_LEARNED = ("names_", "state_slices_", "transition_", "process_cov_")
_LINKS = ("cause", "effect", "kind", "strength", "p_adjusted", "verdict")


def check_server(server):
    """Check whether an object can be the server of an estimator.

    The rules are those of :class:`~skfedcausal.ServerLearner`, checked in fits of a small simulated plant of
    three units; questions that a server has no method for are not asked. The object that is given is cloned
    and stays as it is.

    Parameters
    ----------
    server : ServerLearner or object
        Unfitted.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        With the first rule that does not hold, what was seen and what to do.

    Examples
    --------
    >>> from skfedcausal import LikelihoodServer
    >>> from skfedcausal.testing import check_server
    >>> check_server(LikelihoodServer())
    """
    check_rules(server, _RULES, server, {})


# -- fits to look at ---------------------------------------------------------------------------------


def _plant(n_samples=240, seed=0, n_inputs=0):
    """Records of three units with 2, 1 and 2 states, whose names are in no order, and inputs."""
    names, sizes = tuple(_SIZES), list(_SIZES.values())
    X, truth = make_granger_plant(
        3, n_samples=n_samples, n_states=sizes, links=[(0, 1)], n_inputs=n_inputs, random_state=seed
    )
    inputs = dict.fromkeys(names) if not n_inputs else dict(zip(names, truth.inputs, strict=True))
    return dict(zip(names, X.values(), strict=True)), inputs


def _workers(server, records, inputs):
    """Workers of units that such a server can teach."""
    clients, augmenter = {name: KalmanClient(n_states=_SIZES[name]) for name in records}, None
    if getattr(server, "trains_corrections", False):
        from sklearn.neural_network import MLPRegressor

        from ..client.augmenter import RegressorAugmenter

        clients = dict.fromkeys(records, ExtendedKalmanClient(random_state=0))
        augmenter = RegressorAugmenter(MLPRegressor(hidden_layer_sizes=(4,), random_state=0), n_lags=2)
    return {
        name: UnitWorker(name, Y, inputs[name], (0,), None, clients[name], augmenter)
        for name, Y in records.items()
    }


def _fit(server, records=None, inputs=None, *, to_the_end=True):
    """Everything of a fit: server, questions, messages that it was sent, and an error that came late."""
    if records is None:
        records, inputs = _plant()
    inputs = dict.fromkeys(records) if inputs is None else inputs
    workers = _workers(server, records, inputs)
    states: dict[str, dict] = {name: {} for name in records}
    dialogue = server.dialogue(tuple(records), inputs=any(U is not None for U in inputs.values()))
    fit = SimpleNamespace(
        server=server, questions=[], first={}, sent=[], replies={}, error=None, names=tuple(records)
    )
    question = next(dialogue)
    while question is not None:
        _check_question(question, fit)
        try:
            answers = _answers(question, workers, states, len(fit.questions) + 1)
        except Exception as error:
            fit.error, question = error, None
            break
        fit.questions.append(question)
        fit.replies |= {name: one for name, one in question.requests.items() if isinstance(one, StateReply)}
        fit.first = fit.first or answers
        if len(fit.questions) <= _LOOKED_AT:
            fit.sent += [(message, frozen(message)) for message in answers.values()]
        try:
            question = dialogue.send(answers)
        except StopIteration:
            question = None
        except Exception as error:
            fit.error, question = error, None
        if len(fit.questions) == 1:
            fit.after_one = [name for name in _LEARNED if not hasattr(server, name)]
    fit.workers, fit.states = workers, states
    if fit.error is not None and (to_the_end or fit.after_one):
        raise fit.error
    return fit


def _check_question(question, fit):
    k = len(fit.questions)
    most = _MOST_QUESTIONS + 240 * getattr(fit.server, "n_rounds_at_most", 0)
    require(k < most, f"After {k} questions it still asks. Let the generator end.")
    require(isinstance(question, Ask), f"Question {k} is a {type(question).__name__}. Yield an `Ask`.")
    require(
        isinstance(question.requests, dict) and bool(question.requests),
        f"The requests of question {k} are {question.requests!r}. Give one message for each unit by name.",
    )
    unknown = [name for name in question.requests if name not in fit.names]
    require(not unknown, f"Question {k} asks {unknown}, but the units are {list(fit.names)}.")
    for name, request in question.requests.items():
        require(
            isinstance(request, Message),
            f"Question {k} sends {name!r} a {type(request).__name__}. Send a `Message`.",
        )
        if k < _LOOKED_AT and not isinstance(request, StateReply):  # which travels in 4 bits a number
            came = type(request).from_packet(request.to_packet())
            require(same(came, request), f"Question {k} changes on its way to {name!r}.")
    if k == 0:
        missing = [name for name in fit.names if name not in question.requests]
        require(not missing, f"The first question leaves out {missing}. Ask every unit.")


def _answers(question, workers, states, round):
    """Answers of the units, each a copy that a server could change."""
    answers = {}
    for name, request in question.requests.items():
        packet, states[name] = workers[name].handle(request.to_packet(round), states[name])
        require(
            packet.op == question.answer.OP,
            f"{type(request).__name__} is answered with {packet.op!r}, but the question expects "
            f"{question.answer.OP!r}. Name the type of the answer in `Ask`.",
        )
        copied = {key: np.array(value) for key, value in packet.arrays.items()}
        answers[name] = question.answer.from_packet(
            type(packet)(packet.op, packet.round, copied, packet.scalars)
        )
    return answers


def _new(server):
    return seeded(server, 0)


def _kept(server, kept):
    """The one fit that most rules look at, and messages about its record."""
    if "fit" not in kept:
        kept["fit"] = _fit(_new(server), to_the_end=False)
        kept["messages"] = _messages(kept["fit"], const=True)
    return kept["fit"]


def _messages(fit, **wishes):
    request = RecordRequest(**wishes, local_model=True)
    question = Ask(dict.fromkeys(fit.names, request), StateMessage)
    return _answers(question, fit.workers, fit.states, len(fit.questions) + 2)


def _learned(server):
    return [getattr(server, name) for name in _LEARNED]


# -- rules -------------------------------------------------------------------------------------------


def _check_stored(server, kept):
    check_parameters(server)


def _check_parameters(server, kept):
    check_parameters(_new(server), _kept(server, kept).server)


def _check_flags(server, kept):
    require(
        hasattr(server, "dialogue"), "It has no `dialogue(names, inputs)`. Derive it from `ServerLearner`."
    )
    require(
        isinstance(getattr(server, "needs_replies", None), bool),
        "`needs_replies` is not True or False. It says whether a fit needs more than the first messages.",
    )


def _check_dialogue(server, kept):
    one = _new(server).dialogue(("mill", "kiln"), inputs=False)
    require(isgenerator(one), f"It is a {type(one).__name__}. Write `yield Ask(...)`.")
    _kept(server, kept)


def _check_end(server, kept):
    if _kept(server, kept).error is not None:
        raise kept["fit"].error


def _check_messages_stay(server, kept):
    fit = _kept(server, kept)
    changed = [type(message).__name__ for message, was in fit.sent if frozen(message) != was]
    require(not changed, f"The fit changed a {changed[0] if changed else ''} in place. Work on copies.")
    was = frozen(*kept["messages"].values())
    fit.server.filter(kept["messages"])
    require(frozen(*kept["messages"].values()) == was, "`filter` changed messages in place. Work on copies.")


def _check_layout(server, kept):
    fit = _kept(server, kept)
    one, missing = fit.server, [name for name in _LEARNED if not hasattr(fit.server, name)]
    require(not missing, f"After the dialogue there is no {', '.join(missing)}. Set them in `fit`.")
    require(
        isinstance(one.names_, tuple) and one.names_ == fit.names,
        f"`names_` is {one.names_!r} for messages of {fit.names!r}. Keep the units in the "
        "order they came in.",
    )
    slices = one.state_slices_
    require(
        isinstance(slices, dict) and tuple(slices) == fit.names,
        f"`state_slices_` is about {list(slices)}, expected one slice for each of "
        f"{list(fit.names)}, in their "
        "order.",
    )
    stop = 0
    for name, rows in slices.items():
        n_states = kept["messages"][name].z.shape[1]
        require(
            isinstance(rows, slice) and (rows.start, rows.stop) == (stop, stop + n_states),
            f"`state_slices_[{name!r}]` is {rows}, expected {slice(stop, stop + n_states)}: "
            "slices follow each "
            "other and hold every state once.",
        )
        stop += n_states
    kept["n"] = stop


def _check_transition(server, kept):
    real(_kept(server, kept).server.transition_, (kept["n"], kept["n"]), "`transition_`")


def _check_process_cov(server, kept):
    Q = _kept(server, kept).server.process_cov_
    real(Q, (kept["n"], kept["n"]), "`process_cov_`")
    covariance(Q, "`process_cov_`")


def _check_same_fit(server, kept):
    one = _new(server)
    _fit(one, *_plant(180, seed=5))
    _fit(one)
    wrong = _differing(kept["fit"].server, one)
    if not wrong:
        return
    again = _new(server)
    _fit(again)
    drawn = _differing(kept["fit"].server, again)
    require(
        not drawn,
        f"Two clones that got the same messages differ in `{drawn}`. Draw only from a generator that a "
        "parameter `random_state` seeds.",
    )
    raise Broken(f"After a fit to other messages `{wrong}` is another one. Start every fit afresh.")


def _differing(first, second):
    """The first learned attribute that differs, None if there is none."""
    pairs = zip(_LEARNED, _learned(first), _learned(second), strict=True)
    return next((name for name, one, other in pairs if not same(one, other)), None)


def _check_order(server, kept):
    records, inputs = _plant()
    one, other = kept["fit"].server, _new(server)
    _fit(other, {name: records[name] for name in reversed(records)}, inputs)
    at = np.concatenate(
        [np.arange(s.start, s.stop) for s in (other.state_slices_[name] for name in one.names_)]
    )
    for name in ("transition_", "process_cov_"):
        turned = getattr(other, name)[np.ix_(at, at)]
        require(
            close(turned, getattr(one, name), 1e-3) or _draws(server),
            f"With the units in another order `{name}` is another one, not the same with rows and columns in "
            "that order. Take states by `state_slices_`.",
        )


def _draws(server):
    """Whether another seed gives another plant, so that the start is another one in every order."""
    seeds = [seeded(server, seed) for seed in (0, 1)]
    if same(seeds[0], seeds[1]):
        return False
    return not same(*(_learned(_fit(one).server) for one in seeds))


def _check_filter(server, kept):
    fit, messages = _kept(server, kept), kept["messages"]
    run, shape = fit.server.filter(messages), (240, kept["n"])
    for name in ("predicted", "filtered"):
        real(getattr(run, name), shape, f"`filter(messages).{name}`")
    real(run.log_likelihood(), shape[:1], "`filter(messages).log_likelihood()`")
    other = fit.server.filter(messages)
    require(
        same(run.predicted, other.predicted), "The same messages were filtered differently the second time."
    )


def _check_past(server, kept):
    fit, messages = _kept(server, kept), kept["messages"]
    run, t = fit.server.filter(messages), 100
    part = fit.server.filter({name: message.rows(0, t) for name, message in messages.items()})
    for name in ("predicted", "filtered"):
        require(
            close(getattr(part, name), getattr(run, name)[:t], 1e-6),
            f"Without the messages from row {t} on, `{name}` of earlier rows is another one. "
            "A filter looks at "
            "the past only.",
        )


def _check_told(server, kept):
    fit = _kept(server, kept)
    told = {name for ask in fit.questions if ask.answer is Acknowledgement for name in ask.requests}
    missing = [name for name in fit.names if name not in told]
    require(
        not missing,
        f"The dialogue ended and {missing} were not told what was learned. Yield an `Ask` with one reply for "
        "every unit and `Acknowledgement` as the answer.",
    )


def _check_replies(server, kept):
    fit = _kept(server, kept)
    replies = dict(fit.replies)
    if hasattr(fit.server, "replies"):
        replies = fit.server.replies(_messages(fit))
        missing = [name for name in fit.names if name not in replies]
        require(not missing, f"`replies(messages)` leaves out {missing}. Give one reply for every unit.")
    for name, reply in replies.items():
        rows = fit.server.state_slices_[name]
        n_states, what = rows.stop - rows.start, f"of the reply to {name!r}"
        require(
            isinstance(reply, StateReply),
            f"The reply to {name!r} is a {type(reply).__name__}, no `StateReply`.",
        )
        real(reply.cross_term, (240, n_states), f"`cross_term` {what}")
        real(reply.transition, (n_states, n_states), f"`transition` {what}")
        covariance(reply.process_cov, f"`process_cov` {what}")
        for block in ("transition", "process_cov"):
            require(
                close(getattr(reply, block), getattr(fit.server, f"{block}_")[rows, rows], 1e-6),
                f"`{block}` {what} is not the unit's own block of `{block}_`.",
            )
        type(reply).from_packet(reply.to_packet())


def _check_smoothed(server, kept):
    fit = _kept(server, kept)
    for question in ("smoothed", "abducted"):
        if not hasattr(fit.server, question):
            continue
        answers = getattr(fit.server, question)(kept["messages"])
        missing = [name for name in fit.names if name not in answers]
        require(not missing, f"`{question}(messages)` leaves out {missing}. Give one reply for every unit.")
        for name in fit.names:
            reply, rows = answers[name], fit.server.state_slices_[name]
            what = f"`{question}(messages)[{name!r}]`"
            require(
                isinstance(reply, SmoothedReply), f"{what} is a {type(reply).__name__}, no `SmoothedReply`."
            )
            real(reply.states, (240, rows.stop - rows.start), f"`states` of {what}")
            covariance(reply.covariances, f"A covariance of {what}")
            SmoothedReply.from_packet(reply.to_packet())


def _check_one_way(server, kept):
    fit = _kept(server, kept)
    if fit.server.needs_replies or not fit.after_one:
        return
    raise Broken(
        "`needs_replies` is False, but after the first messages there is no "
        f"{', '.join(fit.after_one)}. Learn "
        "before the next question, or set `needs_replies`."
    )


def _check_links(server, kept):
    one = _kept(server, kept).server
    if not getattr(one, "tests_links", True):
        return
    links: Any = getattr(one, "links_", None)
    require(
        isinstance(links, pd.DataFrame),
        f"`tests_links` is not False, but `links_` is a {type(links).__name__}. Leave a "
        "DataFrame with one row "
        "per ordered pair of units, or set `tests_links = False`.",
    )
    lacking = [name for name in _LINKS if name not in links]
    require(not lacking, f"`links_` lacks the columns {lacking}.")
    pairs = {(cause, effect) for cause in one.names_ for effect in one.names_ if cause != effect}
    states = links[links["kind"] == "state"]
    found = list(zip(states["cause"], states["effect"], strict=True))
    require(
        len(found) == len(pairs) and set(found) == pairs,
        f"`links_` has {len(found)} rows between states, expected one for each of the {len(pairs)} ordered "
        "pairs of units.",
    )
    verdicts = set(links["verdict"]) - {"influence", "no influence", "cannot tell"}
    require(not verdicts, f"`links_` has the verdicts {sorted(map(str, verdicts))}.")
    p = links["p_adjusted"].to_numpy(dtype=float)
    require(bool(((p >= 0) & (p <= 1)).all()), "`p_adjusted` of `links_` has values outside 0 to 1.")


def _check_rows(server, kept):
    fit = _kept(server, kept)
    series = [message.z for message in kept["messages"].values()]
    raw = [worker.record[0] for worker in fit.workers.values()]
    require(
        not holds_rows(fit.server, series + raw),
        "The pickle of the fitted server holds rows of the units' messages. Keep what was "
        "learned, no series.",
    )


def _check_pickle(server, kept):
    fit = _kept(server, kept)
    twin = sent(fit.server)
    first, second = (one.filter(kept["messages"]).predicted for one in (fit.server, twin))
    require(same(first, second), "A copy that was pickled predicts differently.")


def _check_gaps(server, kept):
    records, inputs = _plant()
    rng = np.random.default_rng(0)
    holes = {name: np.where(rng.random(Y.shape) < 0.05, np.nan, Y) for name, Y in records.items()}
    one = _new(server)
    if getattr(one, "trains_corrections", False):
        return
    fit = _fit(one, holes, inputs)
    real(one.transition_, (len(one.transition_),) * 2, "`transition_` of a record with gaps")
    real(one.filter(_messages(fit)).predicted, (240, len(one.transition_)), "Its prediction")


def _check_effects(server, kept):
    one = _new(server)
    if not hasattr(one, "effects"):
        return
    records, inputs = _plant(n_inputs=1)
    try:
        fit = _fit(one, records, inputs)
    except ValueError:
        return  # refuses plants with inputs
    n_inputs = sum(U.shape[1] for U in inputs.values())
    change = np.zeros((6, n_inputs))
    change[0, 0] = 1.0
    replies = one.effects(change, held=None)
    missing = [name for name in fit.names if name not in replies]
    require(not missing, f"`effects(change)` leaves out {missing}. Give one reply for every unit.")
    for name, reply in replies.items():
        require(isinstance(reply, EffectReply), f"`effects` gave {name!r} a {type(reply).__name__}.")
        rows = one.state_slices_[name]
        real(reply.states, (6, rows.stop - rows.start), f"The effect on {name!r}")
    real(one.input_, (len(one.transition_), n_inputs), "`input_`")
    nothing = one.effects(np.zeros((6, n_inputs)), held=None)
    require(
        not any(np.abs(reply.states).max() > 1e-12 for reply in nothing.values()),
        "No change of the inputs has an effect. Effects start from zero.",
    )


_RULES = {
    "it says what it needs": _check_flags,
    "parameters are stored as they are given": _check_stored,
    "a dialogue asks units by name until it ends": _check_dialogue,
    "`names_` and `state_slices_` hold every state of every unit": _check_layout,
    "`transition_` is a finite square matrix": _check_transition,
    "`process_cov_` is a covariance": _check_process_cov,
    "a dialogue goes on without an error": _check_end,
    "messages are not changed": _check_messages_stay,
    "a fit leaves the parameters as they are": _check_parameters,
    "every fit to the same messages gives the same plant": _check_same_fit,
    "another order of the units gives the same plant": _check_order,
    "`filter(messages)` gives states of every row": _check_filter,
    "a filter looks at earlier rows only": _check_past,
    "every unit is told what was learned": _check_told,
    "a reply is about the unit's own part of the plant": _check_replies,
    "smoothed states come for every unit": _check_smoothed,
    "without `needs_replies` the first messages are enough": _check_one_way,
    "a server that tests links leaves a table of all pairs": _check_links,
    "a fitted server keeps no rows": _check_rows,
    "a fitted server can be pickled": _check_pickle,
    "missing measurements do no harm": _check_gaps,
    "effects of inputs come for every unit": _check_effects,
}
