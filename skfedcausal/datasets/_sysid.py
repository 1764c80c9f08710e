"""Records with recorded inputs from the system identification literature."""

from itertools import pairwise
from typing import NamedTuple

import pandas as pd

from ._records import Source, locate, plant_record
from ._validation import check_known

__all__ = ["load_sysid"]

_DAISY = Source(
    title="DaISy: database for the identification of systems",
    origin="DaISy, STADIUS, KU Leuven (homes.esat.kuleuven.be/~smc/daisy)",
    citation="B. De Moor, P. De Gersem, B. De Schutter and W. Favoreel, Journal A 38(3), 4-5 (1997)",
    licence="none stated; public for research, cite it",
)
_TANKS = _DAISY._replace(
    title="Cascaded tanks benchmark",
    origin="nonlinearbenchmark.org",
    citation="M. Schoukens and J. P. Noel, IFAC-PapersOnLine 50(1), 446-451 (2017)",
)


class _Record(NamedTuple):
    """How one file is read.

    `clients` holds "inputs -> outputs" of each client, `period` is in seconds (None where the source does
    not say), of the clients in `chain` only neighbours act on each other.
    """

    clients: dict[str, str]
    period: float | None
    about: str
    chain: tuple[str, ...] = ()
    source: Source = _DAISY


_RECORDS = {
    "winding": _Record(
        {
            "reel1": "u_current_motor1 -> u_speed_reel1 y_tension_12",
            "reel2": "-> u_speed_reel2",
            "reel3": "u_current_motor3 -> u_speed_reel3 y_tension_23",
        },
        0.1,
        "Industrial winding process, scaled. The source calls the measured reel speeds inputs; here they "
        "are outputs, and the set currents of the motors are the inputs. The web couples neighbouring reels "
        "only.",
        chain=("reel1", "reel2", "reel3"),
    ),
    "steamgen": _Record(
        {
            "combustion": "u_fuel u_air -> y_drum_pressure y_excess_oxygen",
            "drum": "u_ref_level u_load_disturbance -> y_drum_level y_steam_flow",
        },
        3.0,
        "Simulated model of a steam generator of the Abbott power plant.",
    ),
    "evaporator": _Record(
        {
            "product": "u_feed_flow -> y_product_flow",
            "concentration": "u_vapor_flow -> y_dry_matter",
            "temperature": "u_cooling_water_flow -> y_product_temp",
        },
        None,
        "Industrial four-stage evaporator, scaled. Which client has which input is a guess.",
    ),
    "powerplant": _Record(
        {
            "boiler": "u_gas_flow u_air_flow u_turbine_valves -> y_steam_pressure",
            "superheater": "u_superheater_spray -> y_main_steam_temp",
            "reheater": "u_gas_dampers -> y_reheat_steam_temp",
        },
        1228.8,
        "120 MW power plant at Pont-sur-Sambre, units unknown, very short.",
    ),
    "glassfurnace": _Record(
        {
            "section1": "u_heating_1 -> y_temp_1 y_temp_2",
            "section2": "u_cooling -> y_temp_3 y_temp_4",
            "section3": "u_heating_2 -> y_temp_5 y_temp_6",
        },
        None,
        "Glass furnace (Philips), scaled: six temperatures of one cross-section. Positions are not "
        "documented, so the sections are a guess by column number.",
    ),
    "cd_player_arm": _Record(
        {"axis1": "u_force_1 -> y_track_1", "axis2": "u_force_2 -> y_track_2"},
        None,
        "Mechanical arm of a compact disc player: forces and tracking errors of two axes.",
    ),
    "cstr": _Record(
        {"concentration": "-> y_concentration", "temperature": "u_coolant_flow -> y_temperature"},
        6.0,
        "Simulated continuous stirred tank reactor.",
    ),
    "exchanger": _Record(
        {"exchanger": "u_liquid_flow -> y_outlet_temp"}, 1.0, "Liquid-saturated steam heat exchanger."
    ),
    "cascaded_tanks": _Record(
        {"tanks": "u_pump -> y_lower_tank"},
        4.0,
        "Two tanks with overflow; the level of the upper tank is not measured.",
        source=_TANKS,
    ),
}


def load_sysid(path, name):
    """Read a record with recorded inputs, for forecasting and counterfactuals.

    Parameters
    ----------
    path : str or path-like
        Folder with ``<name>.csv.gz`` (one header line, rows in time order), or that file.
    name : str
        Record, see Notes.

    Returns
    -------
    record : Bunch
        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``client__column`` with the column names of the file, a client's inputs
            after its outputs.
        lengths : list of int
            One episode.
        clients : list of str
            Units, in the order of their columns.
        inputs : list of str
            Flat names of the inputs, for the argument ``input_columns`` of the estimators.
        variables : DataFrame
            One row per column of `data`: name, column, client, role.
        topology : DataFrame
            Influences between clients that are known beforehand (source, target); empty but for
            ``"winding"``.
        sampling_period : float or None
            Seconds, None where the source does not say.
        DESCR : str
            Description of the data, their origin, reference and licence.

    Raises
    ------
    FileNotFoundError
        If the file is missing.
    ValueError
        If the name is unknown.

    Notes
    -----
    Records and their clients (`variables` holds the columns of each):

    - winding: reel1, reel2, reel3;
    - steamgen: combustion, drum;
    - evaporator: product, concentration, temperature;
    - powerplant: boiler, superheater, reheater;
    - glassfurnace: section1, section2, section3;
    - cd_player_arm: axis1, axis2;
    - cstr: concentration, temperature;
    - exchanger and cascaded_tanks (tanks): one client.

    In ``"winding"`` the three reel speeds, which the source calls inputs, are measured states and
    so outputs here; the chain reel1, reel2, reel3 is the reference for its links. No record holds
    a true counterfactual: what can be checked is the forecast under the recorded inputs.

    References
    ----------
    .. [1] B. De Moor, P. De Gersem, B. De Schutter and W. Favoreel, "DAISY: a database for
           identification of systems", Journal A 38(3), 4-5 (1997).
    .. [2] M. Schoukens and J. P. Noel, "Three benchmarks addressing open challenges in nonlinear
           system identification", IFAC-PapersOnLine 50(1), 446-451 (2017).

    Examples
    --------
    >>> import os
    >>> from pathlib import Path
    >>> from skfedcausal.datasets import load_sysid
    >>> record = load_sysid(Path(os.environ["SKFEDCAUSAL_DATA"]) / "sysid", "exchanger")
    >>> record.data.columns.tolist(), record.inputs
    (['exchanger__y_outlet_temp', 'exchanger__u_liquid_flow'], ['exchanger__u_liquid_flow'])
    """
    record = _RECORDS[check_known(name, tuple(_RECORDS), "name")]
    table = pd.read_csv(locate(path, (f"{name}.csv.gz",), record.source)[name])
    variables = [
        (column, client, role)
        for client, text in record.clients.items()
        for role, part in zip(("input", "output"), text.split("->"), strict=True)
        for column in part.split()
    ]
    steps = list(pairwise(record.chain))
    return plant_record(
        [table],
        variables,
        record.source,
        record.about,
        period=record.period,
        inputs="separate",
        topology=pd.DataFrame(steps + [(b, a) for a, b in steps], columns=["source", "target"]),
    )
