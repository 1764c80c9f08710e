"""Roles of tags: proposed from names and behaviour, listed, corrected, and what a counter becomes."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import PlantTable, check_plant
from skfedcausal.historian.naming import ROLES, roles_of

N = 4000
COUNTERS = ["P1__FQ1.PV", "P1__RUNHRS.PV"]


def plant(seed):
    """A unit with a measurement of every role, as control systems name them, and the roles by tag."""
    rng = np.random.default_rng(seed)
    flow = 40 + np.convolve(rng.standard_normal(N + 19), np.ones(20) / 4, "valid")
    steps = np.repeat(rng.normal(50, 5, N // 400).round(1), 400)
    lab = np.full(N, np.nan)
    lab[::250] = rng.normal(6, 0.2, len(lab[::250])).round(2)
    tags = {
        "FT1.PV": (flow, "PV"),
        "TT2.PV": (500 + rng.standard_normal(N), "PV"),
        "FIC1.SP": (steps, "SP"),
        "FIC1.OP": (50 + flow / 4 + rng.standard_normal(N), "OP"),
        "PIC3.SP": (np.full(N, 100.0), "SP"),
        "FQ1.PV": (np.cumsum(flow).round(1) % 9999, "counter"),
        "RUNHRS.PV": (np.floor(np.arange(N) / 360) + 41230, "counter"),
        "XV4.ZS": ((np.arange(N) // 333) % 2.0, "switch"),
        "FIC1.MODE": ((np.arange(N) // 700) % 3.0, "MODE"),
        "LAB.MOIST": (lab, "lab"),
    }
    index = pd.date_range("2026-03-01", periods=N, freq="10s")
    columns = {f"P1.{tag}": values for tag, (values, _) in tags.items()}
    return pd.DataFrame(columns, index=index), {f"P1__{tag}": role for tag, (_, role) in tags.items()}


@pytest.mark.parametrize("seed", range(3))
def test_every_tag_has_its_role_and_counters_have_no_seasons(seed):
    frame, roles = plant(seed)
    table = PlantTable.read(frame, units="{unit}.{tag}")
    found = table.roles.set_index("column")["role"].to_dict()
    assert found == roles
    kinds = [check_plant(part).findings["kind"].tolist() for part in (table.frame, table.frame.drop(columns=COUNTERS))]
    assert kinds[0] == kinds[1]
    assert check_plant(table.frame[[*COUNTERS, "P1__TT2.PV"]]).findings.empty


def test_counters_become_rates_or_are_left_out_and_both_is_said():
    frame, _ = plant(0)
    table = PlantTable.read(frame, units="{unit}.{tag}")
    learned = table.with_rates()
    rate = learned.frame["P1__FQ1.PV"]
    assert_allclose(rate.dropna(), frame["P1.FT1.PV"][rate.notna().to_numpy()], atol=0.11)
    assert rate.isna().sum() == 1 + int(frame["P1.FT1.PV"].sum() // 9999)
    assert learned.left_out["P1__RUNHRS.PV"] == "counts hours or the like"
    assert learned.said[-2:] == (
        "counters: 'P1__FQ1.PV' as the rise from row to row",
        "counters: 'P1__RUNHRS.PV' left out, whose steps are those of a clock",
    )


def test_roles_are_corrected_by_tag_or_in_a_file(tmp_path):
    frame, _ = plant(0)
    table = PlantTable.read(frame, units="{unit}.{tag}")
    given = table.with_roles({"XV4.ZS": "MODE"}).roles.set_index("column").loc["P1__XV4.ZS"]
    assert (given["role"], given["because"]) == ("MODE", "as given")
    table.roles.assign(role=table.roles["role"].replace("counter", "PV")).to_csv(tmp_path / "roles.csv", index=False)
    kept = table.with_roles(tmp_path / "roles.csv")
    assert "counter" not in set(kept.roles["role"])
    assert kept.with_rates() is kept
    with pytest.raises(ValueError, match=r"'sensor'; give \{column: role\}"):
        table.with_roles({"XV4.ZS": "sensor"})
    with pytest.raises(ValueError, match="'XV5', which are not there"):
        table.with_roles({"XV5": "PV"})


def test_roles_are_told_by_behaviour_where_names_tell_none():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a__1": rng.standard_normal(500), "a__2": (np.arange(500) // 50) % 2.0, "a__3": 1.0})
    table = roles_of(frame, ["a__4"])
    assert table["role"].tolist() == ["PV", "switch", "constant", "MODE"]
    assert set(table["role"]) <= set(ROLES)


def test_words_of_other_languages_tell_roles_and_a_switch_of_feedwater_is_no_laboratory():
    rng = np.random.default_rng(5)
    moving = rng.standard_normal((5, N))
    names = {"K__Ventil_Stellgröße": "OP", "K__Vanne_Sortie": "OP", "K__Valvula_Salida": "OP", "K__Druck_Istwert": "PV"}
    frame = pd.DataFrame(dict(zip(names, moving, strict=False)) | {"10__LAB20AA101_XB01": (np.arange(N) // 70) % 2.0})
    assert roles_of(frame)["role"].tolist() == [*names.values(), "switch"]


def test_a_laboratory_of_its_own_has_no_seasons_or_trends():
    values = np.full((N, 2), np.nan)
    values[::250] = np.random.default_rng(3).normal(6, 0.2, (len(values[::250]), 2)).round(2)
    frame = pd.DataFrame({"LAB__MOIST": values[:, 0], "LAB__ASH": values[:, 1], "P__x": np.arange(N) % 7 / 2})
    kinds = check_plant(frame).findings.query("unit == 'LAB'")["kind"]
    assert not {"season", "trend", "wandering", "level shift", "modes"} & set(kinds)
