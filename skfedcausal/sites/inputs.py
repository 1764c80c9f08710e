"""Inputs of a site as it sends them: through a basis or an instrument, a row ahead where they were set before it.

The server is told columns and knows nothing of what they were made of: its questions are about these columns.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .settings import SettingsError
from ..containers import episode_starts
from ..containers.layout import listed, refuse_unknown
from ..statespace.input_basis import (
    BASES,
    WEAK,
    a_row_ahead,
    basis_columns,
    explained,
    followed_law,
    independent_columns,
    quartile_spline,
    strength,
)

WORDS = ("after", "before")
_logger = logging.getLogger(__name__)


def by_column(choice, columns, what, allowed):
    """A choice for each input column from one for all, or from a table by column; SettingsError if unknown."""
    table = choice if isinstance(choice, Mapping) else dict.fromkeys(columns, choice)
    refuse_unknown(table, columns, f"`{what}` names", "the `inputs` are", SettingsError)
    refuse_unknown(table.values(), allowed, f"`{what}` is", "choose", SettingsError)
    return {name: table.get(name, allowed[0]) for name in columns}


def with_sent_inputs(record, settings):
    """The record of a site with its inputs as they are sent."""
    bases = by_column(settings.basis, settings.inputs, "basis", BASES)
    words = by_column(settings.sampled, settings.inputs, "sampled", WORDS)
    if settings.instruments:
        _check_instruments(settings, bases, record.moving)
        record = _with_explained(record, settings.instruments)
    plain = all(bases[name] == "linear" and words[name] == "after" for name in record.moving)
    if record.inputs is None or plain:
        return record
    columns, owners = [], []
    for name, u in zip(record.moving, np.array(record.inputs).T, strict=True):
        columns.append(_spline(u, name) if bases[name] == "spline" else u[:, None])
        owners += [name] * columns[-1].shape[1]
    early = [words[name] == "before" for name in owners]
    sent = a_row_ahead(np.hstack(columns), early, episode_starts(record.lengths))
    made = f"{sorted(bases.items())} {sorted(words.items())}"
    return replace(record, inputs=sent, fingerprint=f"{record.fingerprint} {made}")


def _check_instruments(settings, bases, moving):
    pairs, declared = settings.instruments, settings.inputs
    unknown = [name for pair in pairs.items() for name in pair if name not in declared]
    if unknown:
        raise SettingsError(
            f"`instruments` names {listed(unknown)}; the `inputs` are {listed(declared)}. An instrument is declared as "
            "an input too."
        )
    if len({*pairs, *pairs.values()}) < 2 * len(pairs):
        raise SettingsError("`instruments` names an input twice; give each instrument once, for one input.")
    if set(bases.values()) != {"linear"}:
        raise SettingsError("`instruments` explain inputs that act as they are: leave out `basis`.")
    still = [name for pair in pairs.items() for name in pair if name not in moving]
    if still:
        raise SettingsError(f"`instruments` names {listed(still)}, which never move in this record: leave them out.")


def _with_explained(record, pairs):
    """The record with what instruments explain of their inputs in place of these, and without the instruments."""
    columns, starts = np.array(record.inputs, dtype=float), episode_starts(record.lengths)
    at = {name: k for k, name in enumerate(record.moving)}
    for name, other in pairs.items():
        u, z = columns[:, at[name]].copy(), columns[:, at[other]]
        law = followed_law(u, z, starts)
        columns[:, at[name]] = explained(law, z, starts)
        share, statistic = strength(u, columns[:, at[name]], len(law))
        say = _logger.warning if statistic < WEAK else _logger.info
        words = "%r explains %.3g of the variance of %r, F statistic %.3g (%g at least)"
        say(words, other, share, name, statistic, WEAK)
    kept = [name for name in record.moving if name not in pairs.values()]
    made = f"{record.fingerprint} {sorted(pairs.items())}"
    return replace(record, inputs=columns[:, [at[name] for name in kept]], moving=tuple(kept), fingerprint=made)


def _spline(u, name):
    """Columns of a spline that determine each other not."""
    columns = basis_columns(quartile_spline(u), u, name)
    return columns[:, independent_columns(columns, name)]
