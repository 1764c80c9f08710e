"""Checks of parts that work at a unit: its model, its augmenter and its privacy mechanism."""

from copy import copy, deepcopy
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone

from ..bases import settings_by_name
from ..client.augmenter import as_augmenter
from ..client.extended_kalman import ExtendedKalmanClient
from ..client.unit_model import UnitClient
from ..client.worker import UnitWorker, unit_message
from ..message.states import StateMessage
from ..privacy.accountant import PrivacyAccountant, Scope
from ..privacy.calibration import PrivacyBudgetError
from ..privacy.mechanism import PrivacyMechanism
from . import _rules as check

# -- clients -----------------------------------------------------------------------------------------

_ROWS = 200
_STARTS = (0, 90)
_LENGTHS = (90, 110)
_FIRST, _SECOND = slice(None, 90), slice(90, None)


def check_client(client: Any) -> None:
    """Check whether an object can be a unit's model.

    The rules are those of :class:`~skfedcausal.UnitClient`, or of an object with the methods of one, or with
    ``filter_moments`` alone. They are checked on a made record of 200 rows, with as many columns as the
    matrices of the client have, or four. The object that is given is copied and stays as it is.

    Parameters
    ----------
    client : UnitClient or object

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        With the first rule that does not hold, what was seen and what to do.

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.testing import check_client
    >>> check_client(KalmanClient())
    """
    check.check_rules(_CLIENT, _SeenClient(client))


def _series(n_columns, seed=0):
    """Autoregressive columns, in mean zero."""
    Y = np.random.default_rng(seed).standard_normal((_ROWS, n_columns))
    for t in range(1, _ROWS):
        Y[t] += 0.7 * Y[t - 1]
    return Y - Y.mean(axis=0)


class _SeenClient(check.Seen):
    """A client, a made record, and a copy of the client as a unit fits it to that record."""

    def __init__(self, client):
        super().__init__(client)
        self.is_box = hasattr(client, "filter_moments") and not hasattr(client, "message")
        self.learns = hasattr(client, "fit") and not getattr(client, "is_fitted", False)
        self.Y = self.record()
        self.series = [self.Y]

    def record(self, seed=0):
        """A record with as many sensors as the client has, all with a level."""
        given = [getattr(self.given, name, None) for name in ("C", "observation_", "R", "measurement_cov_")]
        sizes = [len(value) for value in given if value is not None]
        d = sizes[0] if sizes else getattr(self.given, "n_features_in_", 4)
        return _series(d, seed) @ (np.eye(d) + 0.5) + 20.0 + np.arange(d)

    def new(self):
        """A copy with a seed, not fitted unless the client that was given is."""
        return super().new() if self.learns else deepcopy(self.given)

    @cached_property
    def one(self):
        return UnitWorker("boiler", self.Y, None, _STARTS, None, self.new()).fitted()

    def again(self):
        """A client fitted to another record before, if it is fitted as it is."""
        if isinstance(self.given, UnitClient):
            return self.new().fit(self.record(seed=5)[:150]).fit(self.Y, lengths=_LENGTHS)
        return UnitWorker("boiler", self.Y, None, _STARTS, None, self.new()).fitted()

    def learned(self, one):
        return self.message_of(self.Y, one, local_model=True)

    @cached_property
    def message(self):
        return self.message_of(self.Y, const=True, local_model=True)

    def message_of(self, Y, one=None, **wishes):
        return unit_message(one or self.one, Y, _STARTS, **wishes)

    def z_and_J(self, Y):
        message = self.message_of(Y)
        return message.z, np.broadcast_to(message.J, (_ROWS, *message.patterns.shape[1:]))

    def filter(self, Y):
        return self.one.filter(Y, lengths=_LENGTHS)

    def predict(self, Y):
        return self.one.predict(Y, lengths=_LENGTHS)

    def measurements(self, states):
        return self.one.measurements(states)

    def said(self, Y):
        """The message by the method that everybody may call."""
        return self.one.message(Y, lengths=_LENGTHS, const=True, local_model=True)

    @property
    def states(self):
        return np.ones((7, self.message.z.shape[1]))


def _fits(seen):
    Y, one = seen.Y.copy(), seen.new()
    check.require(not seen.learns or one.fit(Y, lengths=_LENGTHS) is one, "End `fit` with `return self`.")
    return check.require(check.same(Y, seen.Y), "`fit` changed the record in place. Work on a copy.")


def _whole(seen):
    message, n = seen.message, np.shape(getattr(seen.message, "z", [0]))[-1]
    check.require(isinstance(message, StateMessage), f"It is a {type(message).__name__}.")
    shapes = {"z": (_ROWS, n), "patterns": (len(message.patterns), n, n), "const": (_ROWS,)}
    for name, shape in (shapes | {"transition": (n, n), "process_cov": (n, n)}).items():
        check.real(getattr(message, name), shape, f"`{name}` of the message with const and local_model")
    check.covariance(message.patterns, "`patterns`")
    check.covariance(message.process_cov, "`process_cov`")
    return check.require(tuple(message.lengths) == _LENGTHS, f"`lengths` is {message.lengths}.")


def _private(seen):
    check.require(seen.message.inputs is None, "The message has `inputs`, but the unit has none.")
    for name, value in seen.message.to_packet().arrays.items():
        columns = np.reshape(value, (len(value), -1)).T
        leaked = any(check.close(column, raw) for column in columns for raw in seen.Y.T)
        check.require(not leaked, f"Array `{name}` holds a column of the record as it is.")
    return True


def _agree(seen):
    """States that the message tells of lie as close to the measurements as those of the filter."""
    z, J = seen.z_and_J(seen.Y)
    if seen.is_box or np.linalg.cond(J).max() > 1e10:
        return True
    from_message = np.linalg.solve(J, z[:, :, None])[:, :, 0]
    missed, least = (np.mean((seen.Y - seen.one.measurements(h)) ** 2) for h in (from_message, seen.filter(seen.Y)))
    return missed <= 1.5 * least + 1e-9 * np.var(seen.Y)


def _holes(seen):
    holes = seen.Y.copy()
    holes[20:40, 0] = holes[50:55] = np.nan
    return holes


def _finite(seen):
    n, d = seen.message.z.shape[1], seen.Y.shape[1]
    check.asked("measurements", seen.measurements, seen.states)
    check.real(seen.measurements(seen.states), (7, d), "`measurements(states)`")
    for Y in (seen.Y, _holes(seen)):
        check.real(seen.predict(Y), (_ROWS, d), "`predict(X)`")
        check.real(seen.filter(Y), (_ROWS, n), "`filter(X)`")
    return True


def _says(seen):
    """Whether the method of a client says what its unit sends."""
    if seen.is_box:
        return True
    said = seen.said(seen.Y)
    check.require(isinstance(said, StateMessage), f"`message` gave a {type(said).__name__}; return a StateMessage.")
    check.asked("message", seen.said, seen.Y.copy())
    sent = seen.message
    for name in ("z", "patterns", "const", "transition", "process_cov"):
        check.real(getattr(said, name), getattr(sent, name).shape, f"`{name}` of `message(X)`")
        check.require(check.close(getattr(said, name), getattr(sent, name)), f"`{name}` of both are not the same.")
    return True


def _scikit_learn(seen):
    """Whether the methods that a client has for scikit-learn's sake give what they are called after."""
    one = seen.one.box if seen.is_box else seen.one
    if not isinstance(one, (UnitClient, ExtendedKalmanClient)):
        return True
    shapes = {"transform": (_ROWS, seen.message.z.shape[1]), "predict": seen.Y.shape, "score_samples": (_ROWS,)}
    for name, shape in shapes.items():
        ask = partial(getattr(one, name), lengths=_LENGTHS)
        check.real(ask(seen.Y), shape, f"`{name}(X)`")
        check.asked(name, ask, seen.Y.copy())
    return True


def _gaps(seen):
    z, J = seen.z_and_J(_holes(seen))
    return all(np.abs(value[50:55]).max() <= 1e-6 * np.abs(value).max() for value in (z, J))


def _box(seen):
    if not seen.is_box:
        return True
    _, before, _, after = seen.one.box.filter_moments(seen.Y)
    less = "The filtered covariance is larger than the predicted one: their difference"
    return check.covariance(after, "A filtered covariance") and check.covariance(before - after, less, before)


_CLIENT = {
    "it has the methods of a unit's model": lambda seen: (
        seen.is_box or all(hasattr(seen.given, m) for m in ("message", "filter", "predict", "measurements"))
    ),
    "`fit(X, lengths=...)` returns the client and leaves the record": _fits,
    "`filter_moments` gives covariances, larger ones before than after a row": _box,
    "questions change neither the record nor the client": lambda seen: all(
        check.asked(ask.__name__, ask, seen.Y) for ask in (seen.message_of, seen.filter, seen.predict)
    ),
    "`message(X)` is a whole and usable `StateMessage`": _whole,
    "a message holds no raw measurements": _private,
    "`filter`, `predict` and `measurements` give finite numbers for every row": _finite,
    "rows without measurements tell nothing": _gaps,
    "nothing rests on later rows, and a prediction on earlier ones only": lambda seen: (
        check.looks_back("filter", seen.filter, seen.Y)
        and check.looks_back("predict", seen.predict, seen.Y, ahead=1)
        and check.looks_back("message", lambda Y: seen.message_of(Y).z, seen.Y)
    ),
    "an episode knows nothing of the one before": lambda seen: all(
        check.unmoved(ask.__name__, ask, seen.Y, _FIRST, _SECOND) for ask in (seen.filter, seen.predict)
    ),
    "message and filter are about the same states: z = C' R^-1 (y - mean), J = C' R^-1 C": _agree,
    "`message(X)` says what the unit sends": _says,
    "`transform`, `predict` and `score_samples` of one that scikit-learn can use give finite numbers": _scikit_learn,
} | check.FITTED

# -- augmenters --------------------------------------------------------------------------------------


def check_augmenter(augmenter: Any) -> None:
    """Check whether an object can be an augmenter.

    A regressor of scikit-learn is checked in the :class:`~skfedcausal.RegressorAugmenter` that estimators
    wrap it in. The rules are those of :class:`~skfedcausal.Augmenter`. Takes a few fits to 200 rows of made
    measurements; the object that is given is cloned and stays as it is.

    Parameters
    ----------
    augmenter : Augmenter or regressor
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
    >>> from sklearn.linear_model import Ridge
    >>> from skfedcausal.testing import check_augmenter
    >>> check_augmenter(Ridge())
    """
    check.check_rules(_AUGMENTER, _SeenAugmenter(augmenter))


class _SeenAugmenter(check.Seen):
    """An augmenter, made records of two episodes, and a copy that was fitted to one."""

    @staticmethod
    def record(n_columns=3, n_states=2, seed=0):
        """Centred measurements, the cross term that they tell of, and a transition matrix."""
        Y, rng = _series(n_columns, seed), np.random.default_rng(seed + 1)
        C = 0.1 * rng.standard_normal((_ROWS, n_states))
        C[1:] += Y[:-1] @ rng.standard_normal((n_columns, n_states))
        C[list(_STARTS)] = 0.0
        return Y, C, 0.5 * np.eye(n_states) + 0.1

    def new(self):
        return check.seeded(as_augmenter(self.given), 0)

    @cached_property
    def one(self):
        return self.new().fit(*self.record(), _STARTS)

    Y, series = _series(3), ()  # an augmenter may keep rows, as neighbours do

    def learned(self, one):
        return one.predict(self.Y, _STARTS)

    def again(self):
        used, (Y, C, _) = self.new(), self.record(seed=5)
        used.fit(*self.record(2, 3), _STARTS).fit(Y[:150], C[:150], None, (0,))
        return used.fit(*self.record(), _STARTS)

    def guess(self, Y):
        return self.one.predict(Y, _STARTS)

    def finite(self, Y, C, A):
        """Whether a fit to a record gives finite guesses of its rows."""
        guess = self.new().fit(Y, C, A, _STARTS).predict(Y, _STARTS)
        return check.real(guess, C.shape, f"That of {Y.shape[1]} columns, {len(A)} states")


def _augmenter_fits(seen):
    one, arguments = seen.new(), seen.record()
    check.require(one.fit(*arguments, _STARTS) is one, "End `fit` with `return self`.")
    return check.require(check.same(arguments, seen.record()), "`fit` changed an argument in place.")


def _defaults(seen):
    Y, C, _ = seen.record()
    one = seen.new().fit(Y, C)
    return check.real(one.predict(Y), C.shape, "It") and check.real(one.predict(Y[:1]), (1, 2), "One row")


_AUGMENTER = {
    "`fit` returns the augmenter and leaves its arguments": _augmenter_fits,
    "`predict` changes nothing": lambda seen: check.asked("predict", seen.guess, seen.Y.copy()),
    "`predict(Y, starts)` gives one finite number per row and state": (
        lambda seen: all(seen.finite(*seen.record(*sizes)) for sizes in ((3, 2), (1, 1), (2, 3)))
    ),
    "`transition` and `starts` may be left out": _defaults,
    "the first row of an episode is guessed zero": lambda seen: not seen.guess(seen.Y)[list(_STARTS)].any(),
    "a guess rests on earlier rows": lambda seen: check.looks_back("predict", seen.guess, seen.Y, ahead=1),
    "an episode starts afresh": lambda seen: check.unmoved("predict", seen.guess, seen.Y, _FIRST, _SECOND),
    "constant columns do no harm": lambda seen: seen.finite(seen.Y * [1.0, 0.0, 1.0], *seen.record()[1:]),
} | check.FITTED

# -- mechanisms --------------------------------------------------------------------------------------

_MANY = 6000  # rows of a release whose noise is looked at
_ERRORS = 6.0  # standard errors within which a frequency or mean has to lie


def check_mechanism(mechanism: PrivacyMechanism) -> None:
    """Check whether an object can be a privacy mechanism.

    The rules are those of :class:`~skfedcausal.PrivacyMechanism`: noise as declared, in statistical
    tests that a right mechanism fails once in a hundred million times, charged before it is drawn, and never
    twice for one release. Everything is released for made records by copies with seeds and accounts of their
    own; the object that is given stays as it is and nothing is charged to its account. This is no proof of
    privacy: that a charge covers the noise is only tried out on neighbouring records.

    Parameters
    ----------
    mechanism : PrivacyMechanism

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        With the first rule that does not hold, what was seen and what to do.

    Examples
    --------
    >>> from skfedcausal import GaussianMechanism
    >>> from skfedcausal.testing import check_mechanism
    >>> check_mechanism(GaussianMechanism(epsilon=4.0, delta=1e-5, clip_norm=3.0))
    """
    rules = {"record": _RECORD | _ACCOUNT, "flags": _FLAGS | _ACCOUNT}
    kind = rules.get(getattr(mechanism, "place", ""), _INSIDE)
    check.check_rules(_MECHANISM | kind, _SeenMechanism(mechanism))


class _SeenMechanism(check.Seen):
    """A mechanism, and what its copies release of records in the middle of the ball."""

    def new(self, seed=7, account=None):
        """A copy with a seed and an account of its own."""
        account = PrivacyAccountant() if account is None else account
        account.is_trial = True  # a seed, which voids every promise, says nothing against the mechanism
        own, settings = self.given.get_params(deep=False), {"random_state": seed, "accountant": account}
        one = type(self.given)(**own | {key: settings[key] for key in settings.keys() & own.keys()})
        if "accountant" not in own:
            one.account = account
        return one

    def records(self, n_rows, place=0.0):
        """Record of two units whose rows are `place` times the radius from the middle; flags for flags."""
        own = settings_by_name(self.given)
        named = [value for value in own.values() if isinstance(value, dict)]
        d = max([np.size(own[key]) for key in ("center", "scale") if own.get(key) is not None], default=2)
        names, records = tuple(named[0])[:2] if named else ("boiler", "mill"), {}
        if self.given.place == "flags":
            return dict(zip(names, np.random.default_rng(0).random((2, n_rows, 2)) < 0.5, strict=True))
        for name in names:
            bounds = self.new().noise_of(name, np.ones((n_rows, d))).bounds
            row = bounds.center + bounds.scale * place * bounds.clip / np.sqrt(d)
            records[name] = np.tile(np.asarray(row, dtype=float), (n_rows, 1))
            if not bounds.public:
                records[name][0] = bounds.center + bounds.scale  # from which the ball is taken
        return records

    def release(self, records, one=None):
        return (one or self.new()).release(records, (len(next(iter(records.values()))),))

    @cached_property
    def noises(self):
        """Noise of two different records of each unit, in units of the scale, and the declared size."""
        one, first = self.new(), self.records(_MANY)
        second = {name: Y + 1e-3 * (1 + np.abs(Y)) for name, Y in first.items()}
        drawn = [self.release(records, one) for records in (first, second)]
        return [(*(_scaled(each[name])[1:] for each in drawn), drawn[0][name].noise.std) for name in first]


def _scaled(release):
    bounds = release.noise.bounds
    return (np.asarray(release.values) - bounds.center) / bounds.scale


def _unlike(first, second, who):
    """Whether noise of two kinds is not correlated."""
    correlation = (first * second).mean() / np.sqrt((first**2).mean() * (second**2).mean())
    return check.require(abs(correlation) <= _ERRORS / np.sqrt(first.size), f"{who}: {correlation:.3g}.")


def _copies(seen):
    ones = seen.new(), clone(seen.new())
    return all(each.account is one.account for one in ones for each in (clone(one), copy(one), deepcopy(one)))


def _refused(error, method, *arguments):
    """Whether a method raises such an error."""
    try:
        method(*arguments)
    except error as raised:
        return str(raised)
    return ""


def _comes_back(seen):
    records = seen.records(400, place=0.3)
    for k, Y in enumerate(records.values()):
        Y[5 + k :: 7, 0] = Y[9] = np.nan
    before = check.bits(records)
    releases = seen.release(records)
    check.require(check.bits(records) == before, "It changed a record in place. Work on a copy.")
    check.require(releases.keys() == records.keys(), f"Of {list(records)} came {list(releases)}.")
    for name, release in releases.items():
        kind = getattr(release.values, "dtype", type(release.values).__name__)
        check.require(kind == np.float64, f"The values of {name!r} are {kind}; give an ndarray of float64.")
    return all(
        np.array_equal(np.isnan(releases[name].values), np.isnan(Y))
        and not np.isinf(releases[name].values).any()
        and not np.shares_memory(releases[name].values, Y)
        for name, Y in records.items()
    )


def _size(seen):
    for noise, _, std in seen.noises:
        variance = noise.var(axis=0)
        spread = np.sqrt(((noise**4).mean(axis=0) - variance**2) / len(noise)) + 1e-9 * std**2
        far = np.abs(variance - std**2) > _ERRORS * spread
        check.require(not far.any(), f"Declared is {std:.4g}, it has {np.sqrt(variance).round(4).tolist()}.")
        off = np.abs(noise.mean(axis=0)).max() / (std / np.sqrt(len(noise)))
        check.require(off <= _ERRORS, f"Its mean is {off:.1f} standard errors from zero.")
    return True


def _independent(seen):
    for noise, other, _ in seen.noises:
        for lag in (1, 2, 10):
            _unlike(noise[lag:], noise[:-lag], f"Rows {lag} apart")
        for i, j in np.argwhere(np.tri(noise.shape[1], k=-1)):
            _unlike(noise[:, i], noise[:, j], f"Columns {j} and {i}")
        _unlike(noise, other, "Two records of a unit")
    return _unlike(seen.noises[0][0], seen.noises[1][0], "Two units")


def _clips(seen):
    for release in seen.release(seen.records(_MANY, place=1000.0)).values():
        bounds, std = release.noise.bounds, release.noise.std
        far = np.linalg.norm(_scaled(release).mean(axis=0))
        most = bounds.clip * 1.01 + _ERRORS * std * np.sqrt(len(bounds.scale) / _MANY)
        check.require(far <= most, f"Rows came out {far:.4g} from the middle.")
    return True


def _charged(seen):
    one = seen.new()
    releases = seen.release(seen.records(500), one)
    paid = one.account.charges_of(list(releases))
    charges = {name: [charge for charge in paid if charge.client == name] for name in releases}
    check.require(all(len(each) == 1 for each in charges.values()), f"The charges of one release: {charges}.")
    if None not in (one.epsilon, one.delta, one.clip_norm):
        spent = one.account.spent(one.delta).epsilon
        check.require(spent <= one.epsilon * 1.001, f"More than promised was charged: {spent:.4g}.")
    return one.place == "flags" or all(
        _enough(charges[name][0], release.noise, one.scope.steps(500)) for name, release in releases.items()
    )


def _enough(charge, noise, steps):
    """Whether a charge covers what noise of this size lets through, whatever its distribution.

    By the inequality of Hammersley, Chapman and Robbins: the squared shift of a mean over the variance is at
    most the chi-square divergence, 4 sinh(epsilon / 2)^2 for pure epsilon-DP and exp(mu^2) - 1 for mu-GDP.
    """
    shift = min(noise.bounds.radius, 2 * noise.bounds.clip) / noise.std * (1 - 1e-9)
    if charge.mechanism == "gaussian":
        return check.require(charge.mu >= shift * np.sqrt(steps), f"Of mu was charged {charge.mu:.4g} only.")
    most = max(4 * np.sinh(charge.epsilon / 2) ** 2, np.expm1(min(charge.mu, 20.0) ** 2))
    return check.require(shift**2 <= most, f"An epsilon of {charge.epsilon:.4g} needs more noise.")


def _remembered(seen):
    one, records = seen.new(), seen.records(300)
    announced = one.cost(records, (300,))
    first = seen.release(records, one)
    again = seen.release({name: Y.copy() for name, Y in records.items()}, clone(one))
    paid = one.account.charges_of(list(records))
    costs = [[(one.mu, one.epsilon, one.count) for one in charges] for charges in (announced, paid)]
    check.require(costs[0] == costs[1], "`cost` is not what was charged for both.")
    return all(check.same(first[name].values, again[name].values) for name in records)


def _forbidden(seen):
    one = seen.new(account=PrivacyAccountant(epsilon=1e-6, delta=1e-9))
    one.draw = one.noised = None  # whoever calls them draws before paying
    return _refused(PrivacyBudgetError, seen.release, seen.records(100), one) and not len(one.account)


def _frequencies(seen):
    flags, confusion = seen.records(_MANY), seen.given.confusion
    came = seen.release(flags)
    for name, pairs in flags.items():
        kind = getattr(came[name], "dtype", type(came[name]).__name__)
        check.require(kind == np.dtype(bool), f"The flags of {name!r} are {kind}; give an ndarray of bool.")
        true, shown = (2 * one[:, 0] + one[:, 1] for one in (pairs, came[name]))
        counts = np.zeros((4, 4))
        np.add.at(counts, (true, shown), 1)
        total = counts.sum(axis=1, keepdims=True)
        error = np.sqrt(confusion * (1 - confusion) / total) + 1 / total
        off = (np.abs(counts / total - confusion) / error).max()
        check.require(off < _ERRORS, f"Those of {name!r} are {off:.1f} standard errors from `confusion`.")
    return True


_MECHANISM = {
    "a mechanism is a `PrivacyMechanism`": lambda seen: isinstance(seen.given, PrivacyMechanism),
    "what is protected is a `Scope`": lambda seen: isinstance(seen.given.scope, Scope),
    "copies share one account, so that what they release is counted": _copies,
    "it refuses to be pickled": lambda seen: _refused(TypeError, check.pickled, seen.new()),
}
_RECORD = {
    "`noise_of` gives a `UnitNoise`": lambda seen: seen.records(9) is not None,
    "every unit's record comes back in its shape, missing where it was missing": _comes_back,
    "noise has the size that is declared in `noise_of`": _size,
    "every row, column, record and unit has noise of its own": _independent,
    "rows are clipped to the ball before the noise": _clips,
    "the same record again is the same release, costs nothing, and `cost` says so": _remembered,
}
_FLAGS = {"answers are booleans and as frequent as declared": _frequencies}
_ACCOUNT = {
    "a release is charged once, in full, and costs no more than promised": _charged,
    "what the budget forbids is not released: the account is charged before anything is drawn": _forbidden,
}
_INSIDE = {
    "noise inside training is none for a record: `release` raises a ValueError that says so": (
        lambda seen: seen.given.place in _refused(ValueError, seen.release, {"boiler": np.zeros((50, 2))})
    )
}
