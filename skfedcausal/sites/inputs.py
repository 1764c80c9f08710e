"""Inputs of a site as it sends them: through a basis, and a row ahead where they were set before their row.

The server is told columns and knows nothing of what they were made of: its questions are about these columns.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..client.site_record import SettingsError
from ..containers import episode_starts
from ..containers.layout import listed
from ..statespace.input_basis import BASES, a_row_ahead, basis_columns, independent_columns, quartile_spline

WORDS = ("after", "before")


def by_column(choice, columns, what, allowed):
    """A choice for each input column from one for all, or from a table by column; SettingsError if unknown."""
    table = choice if isinstance(choice, Mapping) else dict.fromkeys(columns, choice)
    unknown = [name for name in table if name not in columns]
    if unknown:
        raise SettingsError(f"`{what}` names {listed(unknown)}; the `inputs` are {listed(columns)}.")
    wrong = [word for word in table.values() if word not in allowed]
    if wrong:
        raise SettingsError(f"`{what}` is {wrong[0]!r}; choose {listed(allowed)}.")
    return {name: table.get(name, allowed[0]) for name in columns}


def with_sent_inputs(record, settings):
    """The record of a site with its inputs as they are sent."""
    bases = by_column(settings.basis, settings.inputs, "basis", BASES)
    words = by_column(settings.sampled, settings.inputs, "sampled", WORDS)
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


def _spline(u, name):
    """Columns of a spline that determine each other not."""
    columns = basis_columns(quartile_spline(u), u, name)
    return columns[:, independent_columns(columns, name)]
