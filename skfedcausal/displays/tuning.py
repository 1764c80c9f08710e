"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    graphs_letter: float = 0.1
    graphs_padding: float = 0.35
    graphs_gap: float = 1.3
    graphs_row: float = 0.62  # inches: of a letter, around a name, between layers and rows
    graphs_most_boxes: int = 10  # names in boxes on the circle; more stand around it
    graphs_bent: float = 0.15  # arrows on the circle, as a share of their length
    graphs_line: float = 0.18  # inches that a name needs around the circle
    graphs_sweeps: int = 12

    effects_most_sensors: int = 12
    effects_most_records: int = 6  # sensors of a record, which have three panels each

    fits_most_units: int = 8  # that get a line each

    incidents_most_lanes: int = 14
    incidents_before: int = 20
    incidents_after: int = 40  # rows around a short incident

    links_dark: float = 0.55  # of the scale of colours, from which on black cannot be read
    links_most_shares: int = 12  # influences with their share beside the arrow
    # times the upper quartile of strengths: what is beyond has the colour and the width of the end
    links_outside: float = 5.0
    links_most_inches: float = 18.0  # of a graph from left to right, and
    links_most_arrows: int = 150  # in it; with more the circle shows as much

    maps_sweeps: int = 50
    maps_named: int = 60  # units whose names are written

    trends_most_tags: int = 6
    trends_per_unit: int = 2  # drawn unless columns are named: in all, and of a unit


TUNING = Tuning()
