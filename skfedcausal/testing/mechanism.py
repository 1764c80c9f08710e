"""Whether an object can be a privacy mechanism."""

from copy import copy, deepcopy
from typing import Any

import numpy as np
from sklearn.base import clone

from ..privacy.accountant import Charge, PrivacyAccountant, Scope
from ..privacy.errors import PrivacyBudgetError
from ..privacy.mechanism import PrivacyMechanism
from ..privacy.noise import UnitNoise
from ._rules import Broken, check_parameters, check_rules, frozen, require, sent

_ROWS = 6000
_ERRORS = 6.0  # standard errors within which a frequency or mean has to lie
_DELTA = 1e-3
_PLACES = ("record", "messages", "gradients", "flags")
_WORDS = {"event": "one time step", "window": "consecutive time steps", "client": "all time steps"}


def check_mechanism(mechanism):
    """Check whether an object can be a privacy mechanism.

    The rules are those of :class:`~skfedcausal.privacy.PrivacyMechanism`: noise as declared, in statistical
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
    check_rules(mechanism, _FIRST, mechanism)
    rules = {"record": _RECORD, "flags": _FLAGS}.get(mechanism.place, _INSIDE)
    check_rules(mechanism, rules, mechanism)


# -- records and copies ------------------------------------------------------------------------------


def _twin(mechanism, account=None, seed=7):
    """A copy with a seed and an account of its own."""
    own = mechanism.get_params(deep=False)
    if "random_state" in own:
        own["random_state"] = seed
    account = PrivacyAccountant() if account is None else account
    if "accountant" in own:
        return type(mechanism)(**own | {"accountant": account})
    twin = type(mechanism)(**own)
    twin._own_accountant = account
    return twin


def _names(mechanism):
    """Units that the mechanism knows of, or any."""
    given = [value for value in mechanism.get_params(deep=False).values() if isinstance(value, dict)]
    return tuple(given[0])[:2] if given else ("boiler", "mill")


def _n_columns(mechanism):
    """Columns that the mechanism has scales or centres for, or two."""
    for name in ("center", "scale"):
        value: Any = getattr(mechanism, name, None)
        if isinstance(value, dict):
            value = next(iter(value.values()))
        if np.ndim(value) == 1:
            return len(value)
    return 2


def _records(mechanism, n_samples=_ROWS, place=0.0):
    """Record of each unit whose rows are `place` times the radius from the middle of the ball."""
    twin, d = _twin(mechanism), _n_columns(mechanism)
    records = {}
    for name in _names(mechanism):
        bounds = twin.noise_of(name, np.ones((n_samples, d))).bounds
        step = place * bounds.clip / np.sqrt(d)
        records[name] = np.tile(bounds.center + bounds.scale * step, (n_samples, 1)).astype(float)
        if not bounds.public:
            records[name][0] = bounds.center + bounds.scale  # from which the ball is taken
    return records


def _released(mechanism, records, twin=None):
    twin = _twin(mechanism) if twin is None else twin
    return twin.release(records, lengths=(len(next(iter(records.values()))),))


def _noise(mechanism):
    """What is added to records that lie in the middle of the ball, in units of the scale, by unit."""
    releases = _released(mechanism, _records(mechanism))
    return {name: (_scaled(one)[1:], one.noise) for name, one in releases.items()}


def _scaled(release):
    bounds = release.noise.bounds
    return (np.asarray(release.values) - bounds.center) / bounds.scale


# -- rules of all mechanisms -------------------------------------------------------------------------


def _check_type(mechanism):
    require(
        isinstance(mechanism, PrivacyMechanism),
        f"It is a {type(mechanism).__name__}. Derive the class from `PrivacyMechanism`.",
    )


def _check_what(mechanism):
    require(isinstance(mechanism.scope, Scope), f"`scope` is {mechanism.scope!r}. Give a `Scope`.")
    require(mechanism.place in _PLACES, f"`place` is {mechanism.place!r}. Choose one of {_PLACES}.")
    require(
        isinstance(mechanism.law, str), f"`law` is {mechanism.law!r}. Name the distribution of the noise."
    )
    mechanism.check()


def _check_parameters(mechanism):
    check_parameters(mechanism)


def _check_copies(mechanism):
    twin = _twin(mechanism)
    own = type(mechanism)(**{**mechanism.get_params(deep=False), **_without_account(mechanism)})
    for one in (twin, own):
        for how, copied in (("clone", clone(one)), ("copy", copy(one)), ("deepcopy", deepcopy(one))):
            require(
                copied.account is one.account,
                f"A {how} has another account, so that what it releases is not counted. Leave "
                "`__sklearn_clone__` and `account` as `PrivacyMechanism` has them.",
            )


def _without_account(mechanism):
    return {"accountant": None} if "accountant" in mechanism.get_params(deep=False) else {}


def _check_no_pickle(mechanism):
    try:
        sent(_twin(mechanism))
    except TypeError:
        return
    raise Broken(
        "`pickle.dumps` gave a copy whose charges are lost. Leave `__reduce__` as `PrivacyMechanism` has it."
    )


# -- rules of noise on records -----------------------------------------------------------------------


def _check_noise_of(mechanism):
    for name, Y in _records(mechanism).items():
        noise = _twin(mechanism).noise_of(name, Y)
        require(isinstance(noise, UnitNoise), f"It gave a {type(noise).__name__}. Return a `UnitNoise`.")
        bounds, d = noise.bounds, Y.shape[1]
        require(
            np.shape(bounds.center) == np.shape(bounds.scale) == (d,),
            f"`center` and `scale` have shapes {np.shape(bounds.center)} and {np.shape(bounds.scale)}, "
            f"expected ({d},).",
        )
        sizes = noise.std, bounds.clip, bounds.radius, *bounds.scale
        require(
            all(np.isfinite(size) and size > 0 for size in sizes),
            f"Standard deviation, clip, radius and scale are {sizes}. All have to be finite and above zero.",
        )


def _check_shape(mechanism):
    records = _records(mechanism, 50)
    before = frozen(*records.values())
    releases = _released(mechanism, records)
    require(before == frozen(*records.values()), "It changed a record in place. Work on a copy.")
    missing = [name for name in records if name not in releases]
    require(not missing, f"It left out {missing}. Release all units or none.")
    for name, Y in records.items():
        values = releases[name].values
        require(
            np.shape(values) == Y.shape,
            f"For a record of shape {Y.shape} it gave one of shape {np.shape(values)}.",
        )
        require(
            not np.shares_memory(values, Y), "What it gave is the raw record itself. Give a copy with noise."
        )


def _check_missing(mechanism):
    records = _records(mechanism, 400, place=0.3)
    for k, Y in enumerate(records.values()):
        Y[5 + k :: 7, 0] = np.nan
        Y[9] = np.nan
    for name, release in _released(mechanism, records).items():
        came, was = np.isnan(release.values), np.isnan(records[name])
        require(
            bool((came == was).all()),
            f"Of {was.sum()} missing values {(came & was).sum()} stayed missing and "
            f"{(came & ~was).sum()} others "
            "became so. Noise must neither fill gaps nor make some.",
        )
        require(bool(np.isfinite(release.values[~was]).all()), "Some values became infinite.")


def _check_variance(mechanism):
    for name, (noise, declared) in _noise(mechanism).items():
        variance = noise.var(axis=0)
        spread = np.sqrt(((noise**4).mean(axis=0) - variance**2) / len(noise))
        wrong = np.abs(variance - declared.std**2) > _ERRORS * spread + 1e-9 * declared.std**2
        k = int(wrong.argmax())
        require(
            not wrong.any(),
            f"Column {k} of unit {name!r} got noise of standard deviation "
            f"{np.sqrt(variance[k]):.4g}, declared "
            f"is {declared.std:.4g} (in units of the scale). Filters and tests count on `UnitNoise.std`.",
        )
        off = np.abs(noise.mean(axis=0)) / (declared.std / np.sqrt(len(noise)))
        require(
            bool((off <= _ERRORS).all()),
            f"The noise of unit {name!r} has mean {noise.mean(axis=0).round(4).tolist()}, {off.max():.1f} "
            "standard errors from zero.",
        )


def _check_white(mechanism):
    for name, (noise, _) in _noise(mechanism).items():
        for lag in (1, 2, 10):
            _check_uncorrelated(
                noise[lag:], noise[:-lag], f"The noise of unit {name!r} repeats: rows {lag} apart"
            )
        d = noise.shape[1]
        pairs = [(i, j) for i in range(d) for j in range(i)]
        for i, j in pairs:
            _check_uncorrelated(noise[:, [i]], noise[:, [j]], f"Columns {j} and {i} of unit {name!r}")


def _check_uncorrelated(first, second, who):
    correlation = (first * second).mean() / np.sqrt((first**2).mean() * (second**2).mean())
    limit = _ERRORS / np.sqrt(first.size)
    require(
        abs(correlation) <= limit,
        f"{who} have noise with correlation {correlation:.3g}, expected none (at most "
        f"{limit:.2g}). Draw fresh "
        "numbers from the generator for every number.",
    )


def _check_units(mechanism):
    (first, _), (second, _) = _noise(mechanism).values()
    _check_uncorrelated(first, second, "Two units")


def _check_fresh(mechanism):
    twin, records = _twin(mechanism), _records(mechanism)
    other = {name: Y + 1e-3 * (1 + np.abs(Y)) for name, Y in records.items()}
    first, second = (_released(mechanism, one, twin) for one in (records, other))
    for name in records:
        _check_uncorrelated(_scaled(first[name]), _scaled(second[name]), f"Two records of unit {name!r}")


def _check_clip(mechanism):
    records = _records(mechanism, place=1000.0)
    for name, release in _released(mechanism, records).items():
        bounds, std = release.noise.bounds, release.noise.std
        length = np.linalg.norm(_scaled(release).mean(axis=0))
        limit = bounds.clip * 1.01 + _ERRORS * std * np.sqrt(len(bounds.scale) / _ROWS)
        require(
            length <= limit,
            f"Rows a thousand times as far out as the ball of unit {name!r} came out {length:.4g} from its "
            f"middle; its radius is {bounds.clip:.4g}. Clip before the noise: use `noised` of the base.",
        )


def _check_charged(mechanism):
    twin, records = _twin(mechanism), _records(mechanism, 500)
    _released(mechanism, records, twin)
    for name in records:
        charges = twin.account.charges_of([name])
        require(
            sum(charge.count for charge in charges) == 1,
            f"One release of unit {name!r} was charged "
            f"{sum(charge.count for charge in charges)} times. Charge "
            "every release once: leave `release` as `PrivacyMechanism` has it.",
        )
        charge = charges[0]
        require(isinstance(charge, Charge), f"The account holds a {type(charge).__name__}, no `Charge`.")
        require(
            charge.mu > 0 or charge.epsilon > 0,
            f"The charge for unit {name!r} says that it cost nothing. Set `mu`, or `epsilon` "
            "of a pure release.",
        )
        noise = twin.noise_of(name, records[name])
        least = noise.bounds.radius * np.sqrt(twin.scope.steps(500)) / noise.std
        if charge.mechanism == "gaussian":
            require(
                charge.mu >= least * (1 - 1e-9),
                f"Unit {name!r} was charged mu = {charge.mu:.4g}; Gaussian noise of that size costs "
                f"{least:.4g} per {twin.scope}.",
            )


def _check_promise(mechanism):
    epsilon, delta = mechanism.epsilon, mechanism.delta
    if epsilon is None or delta is None or mechanism.clip_norm is None:
        return
    twin, records = _twin(mechanism), _records(mechanism, 500)
    _released(mechanism, records, twin)
    spent = twin.account.spent(delta)
    require(
        spent.epsilon <= epsilon * 1.001,
        f"`epsilon` is {epsilon:.4g}, but one release cost {spent.epsilon:.4g} at delta = {delta:.3g}.",
    )


def _check_neighbours(mechanism):
    """Records that differ by the protected change in every row are told apart no better than was paid for."""
    if mechanism.scope.unit != "event":
        return
    ends = (-1.0, 1.0) if mechanism.scope.relation == "replace" else (0.0, 1.0)
    name = _names(mechanism)[0]
    Y = _records(mechanism)[name]
    bounds = _twin(mechanism).noise_of(name, Y).bounds
    reach = min(bounds.radius / (ends[1] - ends[0]), bounds.clip) * (1 - 1e-9)
    shown, epsilon = [], 0.0
    for end in ends:
        twin, moved = _twin(mechanism, seed=11 + int(end)), Y.copy()
        moved[:, 0] += end * reach * bounds.scale[0]
        shown.append(_scaled(_released(mechanism, {name: moved}, twin)[name])[:, 0])
        epsilon = twin.account.spent(_DELTA).epsilon
    for level in np.quantile(np.concatenate(shown), np.linspace(0.02, 0.98, 25)):
        below, above = (float((one > level).mean()) for one in shown)
        for p, q in ((above, below), (1 - below, 1 - above)):
            factor = np.exp(min(epsilon, 50.0))
            error = np.sqrt((p * (1 - p) + factor**2 * q * (1 - q)) / _ROWS) + factor * _ERRORS / _ROWS
            require(
                p <= factor * q + _DELTA + _ERRORS * error,
                f"Rows of unit {name!r} that differ by the protected change are told apart "
                "with probabilities "
                f"{p:.3g} and {q:.3g}, which epsilon = {epsilon:.3g} at delta = "
                f"{_DELTA} rules out. Charge "
                "more, or add more noise.",
            )


def _check_remembered(mechanism):
    twin, records = _twin(mechanism), _records(mechanism, 300)
    first = _released(mechanism, records, twin)
    count = len(twin.account)
    again = _released(mechanism, {name: Y.copy() for name, Y in records.items()}, clone(twin))
    require(
        all(np.array_equal(first[name].values, again[name].values) for name in records),
        "The same record was released again with other noise: averages over many releases give the record "
        "away. Leave `release` as `PrivacyMechanism` has it.",
    )
    require(
        len(twin.account) == count,
        f"A release that is remembered was charged again: {count} charges became {len(twin.account)}.",
    )
    _released(mechanism, {name: Y + 1e-3 for name, Y in records.items()}, twin)
    require(
        len(twin.account) == 2 * count,
        f"A record that differs was released without a charge: there are {len(twin.account)} charges for two "
        f"records, expected {2 * count}.",
    )


def _check_cost(mechanism):
    twin, records = _twin(mechanism), _records(mechanism, 300)
    told = twin.cost(records, (300,))
    require(len(twin.account) == 0, "`cost` charged the account. It only says what a release would cost.")
    _released(mechanism, records, twin)
    paid = [charge for name in records for charge in twin.account.charges_of([name])]
    require(
        [(one.client, one.mu, one.epsilon) for one in told]
        == [(one.client, one.mu, one.epsilon) for one in paid],
        "`cost` and the charges of a release differ.",
    )


def _watched(twin, unpaid):
    """Note draws that nothing was charged for."""

    def watched(method):
        def through(*args, **settings):
            if len(twin.account) == 0:
                unpaid.append(True)
            return method(*args, **settings)

        return through

    twin.draw, twin.noised = watched(twin.draw), watched(twin.noised)


def _check_order(mechanism):
    unpaid: list[bool] = []
    twin = _twin(mechanism)
    _watched(twin, unpaid)
    _released(mechanism, _records(mechanism, 100), twin)
    require(
        not unpaid,
        "Noise was drawn before the account was charged: an error in between would leave a release that "
        "nobody paid for. Leave `release` as `PrivacyMechanism` has it.",
    )


def _check_budget(mechanism):
    unpaid: list[bool] = []
    account = PrivacyAccountant(epsilon=1e-6, delta=1e-9)
    twin = _twin(mechanism, account)
    _watched(twin, unpaid)
    try:
        _released(mechanism, _records(mechanism, 100), twin)
    except PrivacyBudgetError:
        require(len(account) == 0, "A release that the budget forbids was charged all the same.")
        require(not unpaid, "Noise was drawn for a release that the budget forbids.")
        return
    raise Broken(
        "With a budget of epsilon = 1e-6 it released a record all the same. Charge `account` before anything "
        "is drawn."
    )


def _check_stream(mechanism):
    twin, records = _twin(mechanism), _records(mechanism, 2000)
    noise = {name: one.noise for name, one in _released(mechanism, records, twin).items()}
    before, stream = len(twin.account), twin.stream(noise)
    (first, charged), (second, _) = stream.release(records), stream.release(records)
    require(
        charged and len(twin.account) > before,
        "The first batch of a stream cost nothing. Leave `stream` as `PrivacyMechanism` has it.",
    )
    for name, Y in records.items():
        scale = noise[name].bounds.scale
        added = [(one[name] - Y) / scale for one in (first, second)]
        _check_uncorrelated(added[0], added[1], f"Two batches of unit {name!r}")
        off = np.concatenate(added).std() / noise[name].std
        require(0.8 < off < 1.25, f"A batch of unit {name!r} got {off:.2g} times the noise of its record.")


def _check_statement(mechanism):
    twin, records = _twin(mechanism), _records(mechanism, 500)
    _released(mechanism, records, twin)
    spent = twin.account.spent(twin.delta if twin.delta else 1e-5)
    text = twin.statement(spent, tuple(records), 500)
    require(isinstance(text, str), f"`statement` gave a {type(text).__name__}. Give words.")
    leaks = any(charge.bound != "public" for charge in twin.account.charges_of(list(records)))
    if leaks:
        require(
            "NOT PRIVATE" in text, "A bound comes from the data, but the statement does not say NOT PRIVATE."
        )
        return
    scope = twin.scope
    shown: dict[str, tuple] = {"protected unit": (scope.unit, _WORDS.get(scope.unit, scope.unit))}
    shown["neighbouring relation"] = (scope.relation, "other values", "replaced by")
    shown["bound"] = (f"{spent.epsilon:.4g}", f"{spent.epsilon:.3g}", f"{spent.mu:.4g}", f"{spent.mu:.3g}")
    for what, words in shown.items():
        require(
            any(word in text for word in words),
            f"The statement does not name the {what} ({words[0]!r}): {text[:120]!r}...",
        )


def _check_trial(mechanism):
    if mechanism.epsilon is None:
        return
    twin = _twin(mechanism)
    trial = twin.trial(2 * mechanism.epsilon, 3)
    require(trial.epsilon == 2 * mechanism.epsilon, f"`trial` has epsilon = {trial.epsilon}.")
    require(
        trial.account is not twin.account,
        "`trial` shares the account, so that trying out costs as much as a release.",
    )


# -- rules of other mechanisms -----------------------------------------------------------------------


def _check_refused(mechanism):
    twin = _twin(mechanism)
    try:
        twin.release({"boiler": np.zeros((50, 2))}, lengths=(50,))
    except ValueError as error:
        require(mechanism.place in str(error), f"The error does not say where its noise is added: {error}")
        return
    raise Broken(f"It has its noise on the {mechanism.place} of training, but released a record.")


def _flags(mechanism, n_samples=_ROWS):
    rng = np.random.default_rng(0)
    return {name: rng.random((n_samples, 2)) < 0.5 for name in ("boiler", "mill")}


def _check_flags(mechanism):
    flags = _flags(mechanism)
    before = frozen(*flags.values())
    came = _twin(mechanism).release(flags)
    require(before == frozen(*flags.values()), "It changed flags in place. Work on a copy.")
    for name, pairs in flags.items():
        require(name in came, f"It left out unit {name!r}.")
        shown = came[name]
        require(
            shown.shape == pairs.shape and shown.dtype == bool,
            f"It gave {shown.dtype} of shape {shown.shape} for booleans of shape {pairs.shape}.",
        )


def _check_confusion(mechanism):
    flags, confusion = _flags(mechanism), mechanism.confusion
    came = _twin(mechanism).release(flags)
    lies = []
    for name, pairs in flags.items():
        true, shown = (2 * one[:, 0] + one[:, 1] for one in (pairs, came[name]))
        lies.append(true != shown)
        counts = np.zeros((4, 4))
        np.add.at(counts, (true.astype(int), shown.astype(int)), 1)
        total = counts.sum(axis=1, keepdims=True)
        error = np.sqrt(confusion * (1 - confusion) / total) + 1 / total
        off = np.abs(counts / total - confusion) / error
        require(
            bool((off < _ERRORS).all()),
            f"Answers of unit {name!r} have other frequencies than `confusion` says, by {off.max():.1f} "
            "standard errors.",
        )
    both, (a, b) = float((lies[0] & lies[1]).mean()), (float(one.mean()) for one in lies)
    require(
        abs(both - a * b) < _ERRORS * 0.5 / np.sqrt(_ROWS),
        f"Two units get a false answer in the same rows ({both:.3g} of all, expected {a * b:.3g}).",
    )


def _check_flags_charged(mechanism):
    twin = _twin(mechanism)
    twin.release(_flags(mechanism, 200))
    for name in ("boiler", "mill"):
        require(
            len(twin.account.charges_of([name])) == 1,
            f"Unit {name!r} has {len(twin.account.charges_of([name]))} charges for one release.",
        )
    account = PrivacyAccountant(epsilon=1e-6, delta=1e-9)
    try:
        _twin(mechanism, account).release(_flags(mechanism, 200))
    except PrivacyBudgetError:
        return
    raise Broken("With a budget of epsilon = 1e-6 it answered all the same.")


_FIRST = {
    "a mechanism is a `PrivacyMechanism`": _check_type,
    "parameters are stored as they are given": _check_parameters,
    "it says what is protected, where noise is added and of what law": _check_what,
    "copies share one account": _check_copies,
    "a mechanism cannot be pickled": _check_no_pickle,
}
_RECORD = {
    "`noise_of` gives a ball and the size of the noise": _check_noise_of,
    "every unit's record comes back in its shape": _check_shape,
    "missing values stay missing, and no others": _check_missing,
    "noise has the size that is declared": _check_variance,
    "noise is independent from row to row and between columns": _check_white,
    "every unit has noise of its own": _check_units,
    "every record has noise of its own": _check_fresh,
    "rows are clipped to the ball": _check_clip,
    "a release is charged once, in full": _check_charged,
    "a release costs no more than promised": _check_promise,
    "neighbouring records cannot be told apart better than was charged": _check_neighbours,
    "the same record again is the same release and costs nothing": _check_remembered,
    "`cost` says what a release costs": _check_cost,
    "the account is charged before anything is drawn": _check_order,
    "what the budget forbids is not released": _check_budget,
    "batches of a stream are paid for and have noise of their own": _check_stream,
    "the statement names unit, relation and bound": _check_statement,
    "a trial has an account of its own": _check_trial,
}
_INSIDE = {"noise inside training is none for a record": _check_refused}
_FLAGS = {
    "flags come back as flags": _check_flags,
    "answers are as frequent as declared": _check_confusion,
    "answers are charged once, and refused beyond the budget": _check_flags_charged,
}
