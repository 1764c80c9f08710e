"""Ten plants of different kinds and ways to name tags: counters make no findings, nine of ten roles are right."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import PlantTable, check_plant

N = 3000
TIMES = pd.date_range("2026-03-01", periods=N, freq="1min")
ROWS = np.arange(N)
DAY = 2 * np.pi * ROWS / 1440


class Signals:
    """Signals as plants have them, seeded."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def moving(self, mean, scale, memory=0.95, digits=3):
        """A measured value around a level."""
        x, e = np.zeros(N + 200), self.rng.standard_normal(N + 200)
        for t in range(1, N + 200):
            x[t] = memory * x[t - 1] + np.sqrt(1 - memory**2) * e[t]
        return (mean + scale * x[200:]).round(digits)

    def held(self, values, usual=200):
        """Steps between some values."""
        changes = self.rng.random(N) < 1 / usual
        changes[:: N // 4] = True
        last = np.maximum.accumulate(np.where(changes, ROWS, 0))
        return np.asarray(self.rng.permuted(np.resize(values, N)), dtype=float)[last]

    def every(self, rows, mean, scale, digits=2):
        """A value every so many rows."""
        sparse = np.full(N, np.nan)
        sparse[rows // 2 :: rows] = self.moving(mean, scale, 0.5, digits)[rows // 2 :: rows]
        return sparse


def total(flow, start=0.0, roll=np.inf):
    return (start + np.cumsum(np.maximum(flow, 0) / 60)) % roll


def boiler(s):
    flow = s.moving(40, 4)
    return {
        "FT101.PV": (flow, "PV"),
        "PT102.PV": (s.moving(60, 1), "PV"),
        "FIC101.SP": (s.held([38, 40, 42]), "SP"),
        "FIC101.OP": (50 + s.moving(0, 5), "OP"),
        "PIC102.SP": (np.full(N, 60.0), "SP"),
        "FQ101.PV": (total(flow).round(1), "counter"),
        "RUNHRS": (np.floor(ROWS / 60) + 41230, "counter"),
        "XV104.ZSO": (s.held([0, 1]), "switch"),
        "FIC101.MODE": (s.held([0, 1, 2], 500), "MODE"),
        "LAB.MOIST": (s.every(240, 6, 0.2), "lab"),
    }


def german(s):
    flow = s.moving(120, 6)
    return {
        "Kessel.Druck_Ist": (s.moving(12, 0.3), "PV"),
        "Kessel.Druck_Soll": (s.held([11.5, 12, 12.5]), "SP"),
        "Kessel.Ventil_Stellwert": (s.moving(45, 4), "OP"),
        "Kessel.Betriebsart": (s.held([1, 2, 4], 600), "MODE"),
        "Kessel.Betriebsstunden": (np.floor(ROWS / 60) + 8112, "counter"),
        "Kessel.Temperatur": (s.moving(181, 1.2), "PV"),
        "Kessel.Durchfluss": (flow, "PV"),
        "Kessel.Durchfluss_Total": (total(flow, 9e5).round(0), "counter"),
        "Kessel.Pumpe_on": (s.held([0, 1], 400), "switch"),
        "Labor.Feuchte": (s.every(360, 7, 0.3), "lab"),
    }


def snake(s):
    power = s.moving(300, 20)
    return {
        "steam_flow": (s.moving(30, 2), "PV"),
        "steam_flow_sp": (s.held([28, 30, 32]), "SP"),
        "feed_valve_out": (s.moving(55, 6), "OP"),
        "pump_running": (s.held([0, 1], 500), "switch"),
        "energy_kwh": (total(power, 1e4).round(1), "counter"),
        "power": (power, "PV"),
        "burner_mode": (s.held([0, 1, 2, 3], 400), "MODE"),
        "drum_level": (s.moving(50, 1.5, 0.9), "PV"),
        "starts": (np.cumsum(s.rng.random(N) < 0.02) + 211.0, "counter"),
        "ash_lab": (s.every(480, 11, 0.4), "lab"),
    }


def nameless(s):
    flow = s.moving(10, 1)
    return {
        "S1": (flow, "PV"),
        "S2": (s.moving(3, 0.2, 0.99), "PV"),
        "S3": (s.moving(500, 40, 0.7), "PV"),
        "S4": (total(flow).round(2), "counter"),
        "S5": (s.held([0, 1], 300), "switch"),
        "S6": (s.held([20, 22.5, 25, 30], 300), "SP"),
        "S7": (np.full(N, 7.5), "constant"),
        "S8": (s.every(180, 4, 0.5), "lab"),
        "S9": (np.floor(ROWS / 60) + 77, "counter"),
        "S10": (s.moving(-5, 1), "PV"),
    }


def water(s):
    flow = np.maximum(s.moving(80, 6) + 30 * np.sin(DAY), 0).round(2)
    of_day = np.concatenate([total(flow[a : a + 1440]) for a in range(0, N, 1440)]).round(1)
    return {
        "LT1": (s.moving(3, 0.2, 0.99), "PV"),
        "FT2": (flow, "PV"),
        "FQI2": (total(flow, 51000).round(0), "counter"),
        "FT2_today_total": (of_day, "counter"),
        "P1.STATUS": (s.held([0, 1], 150), "switch"),
        "P2.STATUS": (s.held([0, 1], 250), "switch"),
        "PT3": (s.moving(4.4, 0.1), "PV"),
        "QT4": (s.moving(0.4, 0.02, 0.98), "PV"),
        "P1.HOURS": ((ROWS / 60 + 2210).round(1), "counter"),
        "LSH5": (s.held([0, 0, 0, 1], 150), "switch"),
    }


def building(s):
    power = np.maximum(s.moving(20, 2) + 8 * np.sin(DAY), 0).round(2)
    night = np.where((ROWS % 1440 < 360) | (ROWS % 1440 > 1260), 17.0, 21.0)
    return {
        "Room1.Temp": (s.moving(20.5, 0.4, 0.99, 1), "PV"),
        "Room1.Setpoint": (night, "SP"),
        "Room1.Valve.Output": (s.moving(35, 8, 0.9, 0), "OP"),
        "Meter1.kWh": (total(power, 88000).round(1), "counter"),
        "Meter1.kW": (power, "PV"),
        "Room1.CO2": (s.moving(700, 60, 0.98, 0), "PV"),
        "AHU.Mode": (s.held([0, 1, 2], 600), "MODE"),
        "AHU.Fan.State": (s.held([0, 1], 300), "switch"),
        "Outdoor.Temp": ((8 + 4 * np.sin(DAY) + s.moving(0, 0.5)).round(1), "PV"),
        "Water.Count": (np.cumsum(s.rng.poisson(0.4, N)) + 4e5, "counter"),
    }


def batch(s):
    phase = (ROWS // 75) % 6
    level = 20 + 12 * np.minimum(phase, 4) + s.moving(0, 0.5)
    return {
        "R1.TT1": (60 + 5 * phase + s.moving(0, 0.6), "PV"),
        "R1.LT2": (level, "PV"),
        "R1.PHASE.MODE": (phase.astype(float), "MODE"),
        "R1.TIC1.SP": (60.0 + 5 * phase, "SP"),
        "R1.TIC1.OP": (np.clip(s.moving(50, 30), 0, 100), "OP"),
        "R1.BATCH.COUNT": (ROWS // 450 + 1200.0, "counter"),
        "R1.AGITATOR.RUNNING": ((phase > 0).astype(float), "switch"),
        "R1.FQ3": (total(s.moving(12, 2)).round(2), "counter"),
        "R1.ASSAY.LAB": (s.every(450, 98, 0.4), "lab"),
        "R1.PT4": (s.moving(1.2, 0.05), "PV"),
    }


def wind(s):
    speed = np.maximum(s.moving(8, 2.5, 0.98), 0)
    power = np.clip((speed - 3) ** 3 * 6, 0, 2000).round(1)
    return {
        "WTG1.WindSpeed": (speed.round(2), "PV"),
        "WTG1.ActivePower": (power, "PV"),
        "WTG1.Energy.Total": (total(power, 3.1e6).round(0), "counter"),
        "WTG1.RotorSpeed": (np.minimum(speed, 12) * 1.2 + s.moving(0, 0.05), "PV"),
        "WTG1.GearOilTemp": (s.moving(58, 2, 0.995, 0), "PV"),
        "WTG1.State": (s.held([1, 2, 4, 8], 400), "switch"),
        "WTG1.Production.Hours": (np.cumsum(power > 0) / 60 + 12000, "counter"),
        "WTG1.Power.Demand": (s.held([1500, 2000], 700), "OP"),
        "WTG1.Yaw": (s.moving(200, 30, 0.999, 1), "PV"),
        "WTG1.Starts": (np.cumsum(np.diff(power > 50, prepend=False) & (power > 50)) + 900.0, "counter"),
    }


def coarse(s):
    """Measurements of few digits beside set points that never move and outputs at their limits."""
    return {
        "TI1": (s.moving(84, 2, 0.97, 0), "PV"),
        "LI2": (s.moving(50, 3, 0.95, 0), "PV"),
        "PI3": (s.moving(4, 0.15, 0.9, 1), "PV"),
        "TIC1.SP": (np.full(N, 84.0), "SP"),
        "TIC1.OP": (np.clip(s.moving(100, 10), 0, 100), "OP"),
        "LIC2.SP": (np.full(N, 50.0), "SP"),
        "LIC2.OP": (np.clip(s.moving(45, 20, 0.9, 0), 0, 100), "OP"),
        "FQT4": (total(s.moving(30, 3), 99000, 1e5).round(0), "counter"),
        "HS5": (s.held([0, 1], 700), "switch"),
        "II6": (s.moving(33, 1.5, 0.6, 0), "PV"),
    }


def sewage(s):
    inflow = np.maximum(s.moving(300, 30) + 80 * np.sin(DAY), 0).round(1)
    return {
        "FIT001": (inflow, "PV"),
        "FIT001_TOT": (total(inflow, 2.4e6).round(0), "counter"),
        "AIT002_DO": (s.moving(2, 0.2), "PV"),
        "AIC002_SP": (s.held([1.8, 2.0, 2.2], 400), "SP"),
        "BL003_CV": (s.moving(62, 5), "OP"),
        "BL003_ON": (s.held([0, 1], 600), "switch"),
        "BL003_HOURS": (np.floor(ROWS / 60) + 19000, "counter"),
        "LAB_COD": (s.every(360, 410, 30, 0), "lab"),
        "LAB_NH4": (s.every(360, 28, 2, 1), "lab"),
        "PLANT_MODE": (s.held([1, 2, 3], 800), "MODE"),
    }


PLANTS = [boiler, german, snake, nameless, water, building, batch, wind, coarse, sewage]


@pytest.mark.parametrize("plant", PLANTS)
def test_nine_of_ten_roles_are_right_and_counters_have_no_seasons_or_trends(plant):
    tags = plant(Signals(PLANTS.index(plant)))
    frame = pd.DataFrame({f"A__{tag}": values for tag, (values, _) in tags.items()}, index=TIMES)
    table = PlantTable.read(frame)
    found = dict(zip(table.roles["column"].str.removeprefix("A__"), table.roles["role"], strict=True))
    wrong = {tag: (found[tag], role) for tag, (_, role) in tags.items() if found[tag] != role}
    assert len(found) == len(tags)
    assert len(wrong) <= 0.1 * len(tags), wrong
    counters = [f"A__{tag}" for tag, (_, role) in tags.items() if role == "counter"]
    without = check_plant(frame.drop(columns=counters)).findings["kind"]
    assert sorted(check_plant(frame).findings["kind"]) == sorted(without)
    still = frame[[*counters]].assign(A__calm=Signals(99).moving(5, 1, 0.3))
    assert not check_plant(still).findings["kind"].isin(["season", "trend", "wandering", "level shift", "modes"]).any()
