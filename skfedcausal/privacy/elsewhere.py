"""Releases of the same numbers by several accounts of one process, none of which knows what they cost together."""

import secrets
from hashlib import blake2b
from weakref import WeakKeyDictionary

from .voids import moving_columns

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
