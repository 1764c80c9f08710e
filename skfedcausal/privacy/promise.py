"""Promises of differential privacy in words, and what makes them void."""

import importlib.util
import secrets
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from importlib.resources import files
from weakref import WeakKeyDictionary

import numpy as np

from .calibration import pieces
from .tuning import TUNING

# What makes a promise of differential privacy void, which numbers of two records are the same, and what they cost.
#
# Releases of the same numbers by several accounts of one process are known to none of them: what they cost together is
# said here.

_ROWS = 2**14  # that are looked at
WORDS = tomllib.loads(files(__package__).joinpath("statements.toml").read_text("utf-8"))


def voids(mechanism, noise, n_samples, Y=None):
    """What voids a release of a record, as words."""
    bounds, delta = getattr(noise, "bounds", None), getattr(mechanism, "delta", None)
    found = {
        "data": bounds is not None and not bounds.public,
        "seed": mechanism.random_state is not None,
        "radius": bounds is not None and Y is not None and mechanism.event_radius is not None and _too_fine(Y, bounds),
        "delta": delta is not None and delta * mechanism.scope.count(n_samples) > 1,
    }
    return " ".join(name for name, is_void in found.items() if is_void)


def reasons(charges):
    """Why charges hold no promise, in words; empty where they do."""
    units: dict[str, list[str]] = {}
    for charge in charges:
        for void in {*charge.void.split(), *({"data"} if charge.bound == "data" else ())}:
            if charge.client not in units.setdefault(void, []):
                units[void].append(charge.client)
    return " ".join(words.format(", ".join(units[void])) for void, words in WORDS["reasons"].items() if void in units)


def as_paid(mechanism, charge, n_samples):
    """A charge for noise inside training, with what voids it."""
    return replace(charge, void=voids(mechanism, None, n_samples))


def _too_fine(Y, bounds):
    """Whether no column of a record has values that differ by as little as is protected."""
    steps = [_resolution(column) for column in ((Y[:: -(-len(Y) // _ROWS)] - bounds.center) / bounds.scale).T]
    return bounds.radius < min((step for step in steps if step > 0), default=0.0)


def _resolution(column):
    """Typical distance of neighbouring values, and at least a thousandth of the spread; zero of a constant."""
    values = np.unique(column[np.isfinite(column)])
    if len(values) < 2:
        return 0.0
    return max(float(np.median(np.diff(values))), TUNING.voids_step * float(np.nanstd(column)))


def identity(account, Y):
    """Names of a record's columns that move, by their numbers; they say nothing without the account."""
    return " ".join(sorted({account.key_of("numbers", column).hex()[:32] for column in moving_columns(Y)}))


def moving_columns(Y):
    """The columns of a record that are not the same number throughout, one after the other."""
    for k in range(Y.shape[1]):
        if any(_moves(Y[rows, k], Y[0, k]) for rows in pieces(len(Y))):
            yield np.ascontiguousarray(Y[:, k])


def _moves(values, first):
    return bool((values != first).any() and np.isfinite(values).any())


def same_clients(charges):
    """One name for all clients that the same numbers were released about, by client."""
    owner: dict[str, str] = {}
    name: dict[str, str] = {}

    def root(client):
        while name.setdefault(client, client) != client:
            client = name[client]
        return client

    for charge in charges:
        own = root(charge.client)
        for numbers in charge.record.split():
            name[root(owner.setdefault(numbers, own))] = own = root(charge.client)
    return {client: root(client) for client in name}


def chosen_sampler(sampler, random_state):
    """The sampler that "auto" stands for: the exact one where it is installed and nothing is to be repeated."""
    if sampler != "auto":
        return sampler
    exact = random_state is None and importlib.util.find_spec("opendp") is not None
    return "opendp" if exact else "float-grid"


_SALT = secrets.token_bytes(32)  # names of numbers say nothing outside this process
_RELEASED: WeakKeyDictionary = WeakKeyDictionary()  # by account: the client of every column that it released


def note(account, client, Y):
    """Remember, while the account lives, that it released a record."""
    if not account.is_trial:
        names = (blake2b(column.data, key=_SALT, digest_size=16).digest() for column in moving_columns(Y))
        _RELEASED.setdefault(account, {}).update(dict.fromkeys(names, client))


def charges_elsewhere(account, names):
    """Charges of other accounts about the numbers of some clients, by client; and how many accounts these are."""
    own = _RELEASED.get(account, {})
    charges: dict[str, list] = {name: [] for name in names}
    found = set()
    for other, columns in list(_RELEASED.items()):
        if other is account:
            continue
        for name in names:
            theirs = {columns[one] for one, client in own.items() if client == name and one in columns}
            if theirs:
                found.add(other)
                charges[name] += other.charges_of(sorted(theirs))
    return charges, found


def together(account, names, delta, scope):
    """What releases of the same numbers by other accounts add, in words; empty where there are none."""
    charges, found = charges_elsewhere(account, names)
    if not found:
        return ""
    who = f"{len(found)} other account{'s' * (len(found) > 1)} of this process released the same data"
    if any(other.scope != scope for other in found):
        return f" NOTE: {who} under another protected unit, which does not add up to one number with this."
    totals = (account.total_with(more, name, delta, scope) for name, more in charges.items())
    epsilon = max(totals)
    return f" NOTE: {who}: all releases together are differentially private at epsilon = {epsilon:.4g} only."


# Promises in words.

NOT_PRIVATE: str = WORDS["not_private"]


def record_statement(scope, spent, whole, charges, n_samples, clip_norm=None, event_radius=None, left="everything"):
    """Promise about units whose records got noise: unit, relation, bound, composition, what is not covered.

    `whole_epsilon` is that of all protected units of a record together at ``spent.delta``, `charges` are
    those behind `spent`, `left` says what of all that left the units the promise is about.
    """
    if void := void_statement(charges):
        return void
    steps = {"event": "one time step", "window": f"{scope.window} consecutive time steps"}
    most, more = n_releases(charges), ""
    if scope.unit != "client" and spent.delta > 0:  # seldom anything
        more = f" A unit's whole record of {n_samples} time steps is protected only to epsilon = {whole:.3g}."
    return WORDS["record"].format(
        scope=scope,
        steps=steps.get(scope.unit, "all time steps"),
        changed="having other values" if scope.relation == "replace" else "being replaced by `center`",
        bound=_bound(clip_norm, event_radius),
        left=left,
        loss=_loss(spent),
        releases="one release" if most == 1 else f"{most} releases",
        more=more,
    )


def void_statement(charges):
    """Why releases promise nothing; empty where they do."""
    why = reasons(charges)
    return f"NOT PRIVATE: {why}" if why else ""


def with_voids(charges, promise):
    """A promise, or why it does not hold and what it would be."""
    void = void_statement(charges)
    return f"{void} Without that it would be: {promise}" if void else promise


def sampled(charges):
    """How the noise was drawn, as far as that is known."""
    samplers = dict.fromkeys(charge.sampler for charge in charges if charge.sampler)
    return "".join(f" {WORDS['samplers'][sampler]}" for sampler in samplers if sampler in WORDS["samplers"])


def _bound(clip_norm, event_radius):
    ball = "clipped to a public ball"
    if clip_norm is not None:
        ball = f"clipped to the public radius {_shown(clip_norm)}"
    if event_radius is None:
        return f"each {ball}"
    return f"each by at most {_shown(event_radius)} (larger changes are protected less) and {ball}"


def n_releases(charges):
    """Releases of the unit that has most."""
    counts: Counter = Counter()
    for charge in charges:
        counts[charge.client] += charge.count
    return max(counts.values(), default=0)


def paper_statement(mechanism, spent, names):
    """Statement of the papers about their protocol, and what is known of it."""
    charges = mechanism.account.charges_of(names)
    why, rounds = reasons(charges), n_releases(charges)
    added = 2 * rounds * mechanism.epsilon
    words = WORDS["paper"].format(mechanism=mechanism, spent=spent, rounds=rounds, added=added)
    return f"{words} Besides, {why}" if why else words


def gradient_statement(mechanism, spent):
    """Promise of noise on a trusted server's gradients, and to whom."""
    return WORDS["gradient"].format(mechanism=mechanism, loss=_loss(spent))


def response_statement(mechanism, spent):
    """Promise of randomised response: unit, bound, composition, what is not covered."""
    return WORDS["response"].format(mechanism=mechanism, spent=spent, what=WORDS["responses"][mechanism.unit])


def _loss(spent):
    if not np.isfinite(spent.epsilon):
        return f"mu = {spent.mu:.4g} (Gaussian differential privacy)"
    gaussian = f" (mu = {spent.mu:.4g})" if spent.mu > 0 else ""
    return f"epsilon = {spent.epsilon:.4g}, delta = {spent.delta:.3g}{gaussian}"


def _shown(value):
    by_unit = isinstance(value, Mapping)
    return ", ".join(f"{v:.4g} ({k})" for k, v in value.items()) if by_unit else f"{value:.4g}"
