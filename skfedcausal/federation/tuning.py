"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    alignment_zones: float = 900.0  # seconds by whose multiples zones differ
    alignment_fewest: int = 10  # rows in common that are worth a fit
    alignment_least_share: float = 0.25  # of the usual rows, for which the others are cut to those of a unit

    atomic_private_file: int = 0o600
    atomic_private_folder: int = 0o700

    # of the variance of information vectors in directions of which the precision says that noise alone is 1
    content_least: float = 1e-3
    content_most: float = 1e16
    content_null: float = 1e-12  # eigenvalue, relative to the largest, of a direction that no sensor sees
    content_beside: float = 1e-6  # share of the variance that rounding may leave in such directions
    content_one_row: float = 1 - 1e-6  # share of all variation that no single row of an honest record holds
    content_densest: float = 1e7  # logarithm of a density of ten thousand sensors that is at the end of all numbers
    content_few_rows: int = 20  # in which a series may stand still, or move once
    content_zeros: float = 0.95  # share of a state's values that are zero, from which on a unit is named
    content_fewer: int = 100  # one row of so many
    content_bursts: float = 0.85  # that holds so much of all variation

    envelope_shared: int = 1
    envelope_pair: int = 2  # versions: signed with a key that both sides have, or with one of a pair
    envelope_max_header: int = 4096  # bytes
    envelope_min_key: int = 16  # bytes
    envelope_at_once: int = 2**23  # bytes of a file that is read before its signature was looked at
    envelope_part: int = 2**20

    exchange_pause: float = 0.1
    exchange_longest_pause: float = 30.0  # seconds before units that had nothing to say are asked again

    files_tries: int = 5  # to write a file where somebody keeps putting something else

    policy_least_share: float = 0.5
    policy_rows_a_number: int = 50  # a law is about a share of the record, or about so many rows for each number

    signatures_bytes: int = 32

    tiers_share: float = 0.9  # of the time for a round that sites are told

    transport_bytes: int = 2**26  # of records that go to a process together


TUNING = Tuning()
