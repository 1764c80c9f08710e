"""Names of units and columns: flat names, what is known, what is unique, lists for messages."""

from collections import Counter

SEPARATOR = "__"


def flat_name(unit, column, known=()):
    """Flat name of a unit's column; a name that is flat already stays as it is.

    Parameters
    ----------
    unit, column : str
        Names of the unit and of the column in the unit's own table.
    known : collection of str
        Flat names that were learned for this unit.

    Returns
    -------
    str
    """
    prefix = f"{unit}{SEPARATOR}"
    return column if column in known or column.startswith(prefix) else prefix + column


def split_flat_names(columns):
    """Unit of each ``unit__sensor`` column, split at the first ``__``.

    Parameters
    ----------
    columns : sequence of str
        Flat names.

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If a name has no ``__``, or nothing before or after it.
    """
    parts = [column.partition(SEPARATOR) for column in columns]
    bad = ["".join(part) for part in parts if not all(part)]
    if bad:
        raise ValueError(
            f"Got column(s) {listed(bad)} without a unit or without a sensor among "
            f"`client{SEPARATOR}sensor` names; name every column 'client{SEPARATOR}sensor', drop "
            "the others (time belongs in the index), or say who owns each column with "
            "`client_labels`."
        )
    return [unit for unit, _, _ in parts]


def check_flat_names(units, columns):
    """Refuse flat names from which the unit's name would not come back.

    Parameters
    ----------
    units, columns : sequence of str of shape (n_columns,)
        Unit and flat name of each column.

    Raises
    ------
    ValueError
        If a flat name made from a unit's name splits elsewhere: unit ``a_`` and sensor ``x`` make
        ``a___x``, which is unit ``a``.
    """
    misread = [
        unit
        for unit, column in zip(units, columns, strict=True)
        if column.startswith(unit + SEPARATOR) and column.partition(SEPARATOR)[0] != unit
    ]
    if misread:
        raise ValueError(
            f"Got unit name(s) {listed(dict.fromkeys(misread))}; rename them: they must not "
            f"contain '{SEPARATOR}' or end with '_', because 'client{SEPARATOR}sensor' names are "
            f"split at the first '{SEPARATOR}'."
        )


def column_order(columns, n_columns, known, what, *, by_name=True):
    """Order that brings columns into the order that was learned.

    Parameters
    ----------
    columns : sequence of str or None
        Names of the columns that came; None where they have none and are taken by position.
    n_columns : int
        Number of columns that came.
    known : sequence of str
        Names that were learned.
    what : str
        What the columns are, for the error message.
    by_name : bool
        If False, columns with other names are taken by position.

    Returns
    -------
    list of int or None
        None if the columns are in order already.

    Raises
    ------
    ValueError
        If names are missing or unknown, or the number of columns differs.
    """
    known = list(known)
    if columns is not None and by_name:
        check_known(columns, known, f"columns of {what}")
    if n_columns != len(known):
        raise ValueError(
            f"Got {n_columns} column(s) in {what}, expected {len(known)}: {listed(known)}. Give "
            "the columns that were there in `fit`, in the same order."
        )
    if columns is None or list(columns) == known or set(columns) != set(known):
        return None
    position_of = {name: position for position, name in enumerate(columns)}
    return [position_of[name] for name in known]


def check_known(names, known, what):
    """Refuse names that differ from those that were learned, in any order.

    Parameters
    ----------
    names, known : collection of str
        Names that came and names that were learned.
    what : str
        What the names are, for the error message.

    Raises
    ------
    ValueError
        If names are missing or unknown.
    """
    came, learned = set(names), set(known)
    missing = [name for name in known if name not in came]
    unknown = [name for name in names if name not in learned]
    if missing or unknown:
        complaints = [f"missing {listed(missing)}"] if missing else []
        complaints += [f"unknown {listed(unknown)}"] if unknown else []
        raise ValueError(
            f"Got {what} that do not fit: {', '.join(complaints)}. "
            f"Known are {listed(known)}; rename, add or drop accordingly."
        )


def check_unit_names(names):
    """Refuse unit names that a flat ``unit__sensor`` name could not carry.

    Parameters
    ----------
    names : sequence of str
        Names of the units.

    Raises
    ------
    ValueError
        If a name is empty or contains ``__``, or two are the same.
    """
    bad = [name for name in names if not name or SEPARATOR in name]
    if bad:
        raise ValueError(
            f"Got unit name(s) {listed(bad)}; a unit's name must not be empty or contain "
            f"'{SEPARATOR}', because columns are called 'client{SEPARATOR}sensor'. Rename the "
            "unit(s)."
        )
    check_unique(names, "units")


def check_unique(names, what):
    """Refuse names that occur twice.

    Parameters
    ----------
    names : sequence of str
        Names.
    what : str
        What is named, in the plural, for the error message.

    Raises
    ------
    ValueError
        If a name occurs twice.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"Got duplicated name(s) {listed(twice)} among the {what}; give every one its own name."
        )


def listed(items, limit=12, *, quoted=True):
    """Text of a list for an error message, cut after `limit` items.

    Parameters
    ----------
    items : iterable
        What to list.
    limit : int
        Number of items shown.
    quoted : bool
        Whether to put strings in quotes.

    Returns
    -------
    str
    """
    items = [repr(str(item)) if quoted and isinstance(item, str) else str(item) for item in items]
    rest = f", ... ({len(items) - limit} more)" if len(items) > limit else ""
    return ", ".join(items[:limit]) + rest if items else "none"
