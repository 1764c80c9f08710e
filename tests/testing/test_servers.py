"""`check_server` passes our servers, and names the rule that a wrong one breaks."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from skfedcausal import GradientServer, LikelihoodOptions, LikelihoodServer, MomentServer, RegressorServer
from skfedcausal.message.requests import Ask
from skfedcausal.message.states import Acknowledgement
from skfedcausal.papers import StopRule
from skfedcausal.server.plant import ServerLearner
from skfedcausal.testing import check_server

pytestmark = pytest.mark.medium


class Apart(ServerLearner):
    """Takes the units as they are, not joined: as small as a server can be."""

    needs_local_model = True

    def fit(self, messages):
        ends = np.cumsum([0, *(m.z.shape[1] for m in messages.values())])
        self.names_ = tuple(messages)
        self.state_slices_ = dict(zip(messages, map(slice, ends[:-1].tolist(), ends[1:].tolist()), strict=True))
        self.transition_ = block_diag(*(m.transition for m in messages.values()))
        self.process_cov_ = block_diag(*(m.process_cov for m in messages.values()))
        return self


TRAINED = MLPRegressor(hidden_layer_sizes=(4,), random_state=0)


@pytest.mark.parametrize(
    "server",
    [
        LikelihoodServer(), LikelihoodServer(options=LikelihoodOptions(n_rounds=2)),
        LikelihoodServer(options=LikelihoodOptions(fix_local=True, held_out=0.2)),
        MomentServer(), MomentServer(n_steps=0), RegressorServer(Ridge()),
        RegressorServer(TRAINED, labels="augmented", n_epochs=2),
        GradientServer(solve="stationary"), GradientServer(update="online", start_scale=0.1),
        GradientServer(stop=StopRule(max_iter=20)), Apart(),
    ],
    ids=repr,
)  # fmt: skip
def test_servers_pass(server):
    before = repr(server), sorted(vars(server))
    check_server(server)
    assert (repr(server), sorted(vars(server))) == before


class Asymmetric(Apart):
    def fit(self, messages):
        super().fit(messages)
        self.process_cov_[0, 1] += 0.1
        return self


class Indefinite(Apart):
    def fit(self, messages):
        super().fit(messages)
        self.process_cov_ = self.process_cov_ - 10 * np.eye(len(self.process_cov_))
        return self


class Nan(Apart):
    def fit(self, messages):
        super().fit(messages)
        self.transition_[0, 0] = np.nan
        return self


class MissingState(Apart):
    def fit(self, messages):
        super().fit(messages)
        name = self.names_[-1]
        self.state_slices_[name] = slice(self.state_slices_[name].start + 1, len(self.transition_))
        return self


class OneSliceLess(Apart):
    def fit(self, messages):
        super().fit(messages)
        del self.state_slices_[self.names_[1]]
        return self


class Sorted(Apart):
    def fit(self, messages):
        return super().fit(dict(sorted(messages.items())))


class ByPosition(Apart):
    def fit(self, messages):
        super().fit(messages)
        self.transition_[0, 0] = 0.123
        return self


class Lists(Apart):
    def fit(self, messages):
        super().fit(messages)
        self.transition_ = self.transition_.tolist()
        return self


class Mutating(Apart):
    def fit(self, messages):
        for message in messages.values():
            message.z[:] -= message.z.mean(axis=0)
        return super().fit(messages)


class MutatingFilter(Apart):
    def filter(self, messages):
        for message in messages.values():
            message.z.setflags(write=True)
            message.z[0] += 1.0
        return super().filter(messages)


class Random(Apart):
    def fit(self, messages):
        super().fit(messages)
        self.transition_ = self.transition_ * np.random.default_rng().uniform(0.9, 1.0)
        return self


class Remembers(Apart):
    def fit(self, messages):
        seen = getattr(self, "seen_", 0.0)
        super().fit(messages)
        self.seen_ = seen + 0.01
        self.transition_ = self.transition_ * (1 - seen)
        return self


class Keeps(Apart):
    def fit(self, messages):
        self.messages_ = messages
        return super().fit(messages)


class KeepsScores(Apart):
    def fit(self, messages):
        self.scores_ = np.hstack([message.z for message in messages.values()])
        return super().fit(messages)


class LacksReply(Apart):
    def replies(self, messages):
        replies = super().replies(messages)
        del replies[self.names_[0]]
        return replies


class Silent(Apart):
    def dialogue(self, names, inputs=False):
        dialogue = super().dialogue(names, inputs)
        messages = yield next(dialogue)
        self.fit(messages)


class LongReply(Apart):
    def replies(self, messages):
        replies = super().replies(messages)
        for reply in replies.values():
            object.__setattr__(reply, "cross_term", np.zeros((240, 9)))
        return replies


class WrongBlock(Apart):
    def replies(self, messages):
        replies = super().replies(messages)
        for reply in replies.values():
            object.__setattr__(reply, "transition", reply.transition * 0)
        return replies


class Endless(Apart):
    def dialogue(self, names, inputs=False):
        dialogue = super().dialogue(names, inputs)
        ask = next(dialogue)
        messages = yield ask
        self.fit(messages)
        while True:
            yield Ask(self.replies(messages), Acknowledgement)


class NoGenerator(Apart):
    def dialogue(self, names, inputs=False):
        return []


class Dicts(Apart):
    def dialogue(self, names, inputs=False):
        messages = yield dict.fromkeys(names, "fit")
        self.fit(messages)


class Strangers(Apart):
    def dialogue(self, names, inputs=False):
        return super().dialogue((*names, "nobody"), inputs)


class OneLess(Apart):
    def dialogue(self, names, inputs=False):
        return super().dialogue(names[1:], inputs)


class Prophet(Apart):
    def filter(self, messages):
        run = super().filter(messages)
        object.__setattr__(run, "predicted", run.filtered)
        run.__dict__["predicted"] = np.vstack([run.filtered[1:], run.filtered[-1:]])
        return run


class ShortFilter(Apart):
    def filter(self, messages):
        run = super().filter(messages)
        run.__dict__["filtered"] = run.filtered[1:]
        return run


class Unlinked(Apart):
    tests_links = True


class Changing(Apart):
    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, messages):
        self.alpha = self.alpha / 2
        return super().fit(messages)


class Converting(Apart):
    def __init__(self, alpha=(1.0,)):
        self.alpha = [float(one) for one in alpha]


class Half(Apart):
    def smoothed(self, messages):
        return dict(list(super().smoothed(messages).items())[:1])


class NoGaps(Apart):
    def fit(self, messages):
        if any(message.index is not None for message in messages.values()):
            raise IndexError("no patterns here")
        return super().fit(messages)


class Late(Apart):
    """Learns after the second round, but says that one round is enough."""

    needs_replies = False

    def dialogue(self, names, inputs=False):
        dialogue = super().dialogue(names, inputs)
        ask = next(dialogue)
        yield ask
        messages = yield ask
        self.fit(messages)
        yield Ask(self.replies(messages), Acknowledgement, needed=0)


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        (
            Asymmetric(),
            "`transition_` and `process_cov_` are finite matrices, the.*`process_cov_` is not symmetric,",
        ),
        (
            Indefinite(),
            "`transition_` and `process_cov_` are finite matrices, the.*`process_cov_` is not positive",
        ),
        (
            Nan(),
            "`transition_` and `process_cov_` are finite matrices, the.*`transition_` has values that are",
        ),
        (MissingState(), "`names_` and `state_slices_` hold every state of every unit"),
        (OneSliceLess(), "`names_` and `state_slices_` hold every state of every unit"),
        (Sorted(), "`names_` and `state_slices_` hold every state of every unit"),
        (ByPosition(), "another order of the units gives the same plant"),
        (
            Lists(),
            "`transition_` and `process_cov_` are finite matrices, the.*`transition_` is a list; give an",
        ),
        (Mutating(), "messages are not changed: work on copies."),
        (MutatingFilter(), "messages are not changed.*`filter`"),
        (Random(), "another order of the units gives the same plant: take"),
        (Remembers(), "a fit draws from `random_state` only and starts afresh: the"),
        (Keeps(), "keeps no rows"),
        (KeepsScores(), "keeps no rows"),
        (LacksReply(), "goes on without an error.*leaves out .'mill'"),
        (Silent(), "every unit is told what was learned."),
        (LongReply(), "goes on without an error.*'mill'.*shape"),
        (WrongBlock(), "the unit's own part of the plant.*`transition`"),
        (Endless(), "a dialogue goes on without an error.*After 100 questions it still"),
        (
            NoGenerator(),
            "`dialogue` asks each unit by name with an `Ask`, learns,.*It raised AttributeError: .list.",
        ),
        (
            Dicts(),
            "`dialogue` asks each unit by name with an `Ask`, learns,.*It raised AttributeError: .dict.",
        ),
        (
            Strangers(),
            "`dialogue` asks each unit by name with an `Ask`, learns,.*It raised KeyError: .nobody",
        ),
        (OneLess(), "leaves out .'mill'"),
        (Prophet(), "looks at earlier rows only"),
        (ShortFilter(), "`filter.messages.*shape"),
        (Unlinked(), "a server that tests links leaves a table `links_` of all.*It raised AttributeError:"),
        (Changing(), "a fit leaves the parameters alone.*..alpha.. are others. Learned"),
        (
            Converting(),
            "`dialogue` asks each unit by name with an `Ask`, learns,.*It raised RuntimeError: Cannot",
        ),
        (Half(), "smoothed states come for every unit.*leaves out"),
        (
            NoGaps(),
            "`dialogue` asks each unit by name with an `Ask`, learns,.*It raised IndexError: no patterns",
        ),
        (Late(), "one round is enough to learn, or `needs_replies`."),
        (
            Ridge(),
            "`dialogue` asks each unit by name with an `Ask`, learns,.*It raised AttributeError: .Ridge.",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_wrong_server_is_named_with_its_rule(server, sentence):
    with pytest.raises(
        AssertionError, match=rf"(?s)^{type(server).__name__} breaks the rule: .*" + "(?:" + sentence + ")"
    ):
        check_server(server)


@pytest.mark.parametrize("given", [None, [], {}], ids=str)
def test_what_fit_gives_is_looked_at(given):
    class NoReturn(Apart):
        def fit(self, messages):
            super().fit(messages)
            return given

    with pytest.raises(
        AssertionError, match=r"NoReturn breaks the rule: `fit.messages.` .* End `fit` with `return self`"
    ):
        check_server(NoReturn())
