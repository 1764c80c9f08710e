"""Whatever a file or a broker does, a plain fault in the rows after it is told: 24 cases from a list of attacks."""

import json
import os
import threading
import time
import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_granger_plant
from skfedcausal.streams import follow_csv, follow_mqtt

from .broker import Broker, as_messages, publish

FAULT, ROWS = 150, 250


@pytest.fixture(scope="module")
def plant():
    """A fitted detector and a record with a plain fault of unit0."""
    X, _ = make_granger_plant(3, n_samples=2000, random_state=1)
    index = pd.date_range("2026-01-01", periods=2000, freq="min")
    frame = pd.concat({name: pd.DataFrame(np.asarray(part), index=index) for name, part in X.items()}, axis=1)
    frame.columns = [f"{unit}__x{k}" for unit, k in frame.columns]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detector = FederatedRCADetector(false_alarm_rate=1e-3).fit(frame[:1500])
    live = frame[1500 : 1500 + ROWS].copy()
    live.iloc[FAULT:, 0:4] += 8
    return detector, live


def follow(plant, source, missing=0):
    """Follow a source; the fault is told within two rows of where it began, and hardly a row is missing."""
    detector, live = deepcopy(plant[0]), plant[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = pd.concat(list(detector.incidents(source)))
    taken = detector.alarms_["n_steps"]
    assert ROWS - missing <= taken <= ROWS
    found = told.query("root == 'unit0'")["detected"]
    late = (found.min() - live.index[FAULT]) / pd.Timedelta("1min")
    assert -1 <= late <= 2
    return told


def lines(frame):
    return [",".join([str(at), *map(repr, map(float, row))]) for at, row in zip(frame.index, frame.values, strict=True)]


def ahead(line, live, by):
    return ",".join([str(live.index[100] + pd.Timedelta(by)), *line.split(",")[1:]])


def spoiled(line, change):
    cells = line.split(",")
    return ",".join([cells[0], change(cells[1]), *cells[2:]])


def shuffled(row):
    return row // 5 * 5 + row * 7 % 5


def with_zone(line):
    return line.replace(":00,", ":00+00:00,", 1)


CSV = {
    "clean": (0, lambda L, live: L),
    "clock of 2099": (0, lambda L, live: [*L[:100], ahead(L[100], live, "26663D"), *L[100:]]),
    "clock a day ahead": (0, lambda L, live: [*L[:100], ahead(L[100], live, "1D"), *L[100:]]),
    "open quote": (1, lambda L, live: [*L[:100], spoiled(L[100], '"{}'.format), *L[101:]]),
    "200,000 digits": (0, lambda L, live: [*L[:100], spoiled(L[100], lambda _: "9" * 200_000), *L[101:]]),
    "NUL": (0, lambda L, live: [*L[:100], spoiled(L[100], "\0{}".format), *L[101:]]),
    "junk before a time": (1, lambda L, live: [*L[:100], "\udcff\udcfe" + L[100], *L[101:]]),
    "shuffled and doubled": (0, lambda L, live: [L[i] for i in sorted(range(ROWS), key=shuffled)] + L[-3:]),
    "some with a zone": (0, lambda L, live: [*L[:100], *map(with_zone, L[100:103]), *L[103:]]),
    "line separator": (0, lambda L, live: [*L[:100], L[100] + "\u2028", *L[101:]]),
    "doubled batch": (0, lambda L, live: [*L[:100], *L[60:100], *L[100:]]),
    "late rows": (0, lambda L, live: [*L[:90], *L[92:95], *L[90:92], *L[95:]]),
}  # fmt: skip


@pytest.mark.parametrize("case", CSV)
def test_a_file_that_grows(plant, tmp_path, case):
    missing, change = CSV[case]
    path, live = tmp_path / "live.csv", plant[1]
    text = "\n".join(["time," + ",".join(live), *change(lines(live), live)]) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    follow(plant, follow_csv(path, wait=0.0, batch_size=50), missing)


@pytest.mark.parametrize("zoned", [False, True])
def test_a_clock_that_is_set_back_an_hour(plant, tmp_path, zoned):
    """With the zone the rows are at their times; without, all are there, and told is what the source calls them."""
    from skfedcausal.streams import Clock

    path, live, clock = tmp_path / "live.csv", plant[1], Clock()
    if zoned:
        live = live.set_axis(pd.date_range("2026-10-25 00:20", periods=ROWS, freq="min", tz="UTC"))
        local = live.index.tz_convert("Europe/Berlin").tz_localize(None)
    else:
        local = live.index.where(np.arange(ROWS) < 100, live.index - pd.Timedelta("1h"))
    path.write_text("\n".join(["time," + ",".join(live), *lines(live.set_axis(local))]) + "\n")
    source = follow_csv(path, wait=0.0, batch_size=50, tz="Europe/Berlin" if zoned else None, clock=clock)
    told = follow((plant[0], live), source)
    first = told.query("root == 'unit0'")["detected"].min()
    assert clock.told(first) == first - pd.Timedelta(0 if zoned else "1h")
    assert clock.counts["set"] == (0 if zoned else 1)


def test_semicolons_and_decimal_commas(plant, tmp_path):
    path, live = tmp_path / "live.csv", plant[1]
    rows = [line.replace(",", ";").replace(".", ",") for line in lines(live)]
    path.write_text("\n".join(["time;" + ";".join(live), *rows]) + "\n")
    follow(plant, follow_csv(path, wait=0.0))


def test_names_in_another_order_midway(plant, tmp_path):
    path, live = tmp_path / "live.csv", plant[1]
    L, turned = lines(live), lines(live[live.columns[::-1]])
    path.write_text(
        "\n".join(["time," + ",".join(live), *L[:120], "time," + ",".join(live.columns[::-1]), *turned[120:]]) + "\n"
    )
    follow(plant, follow_csv(path, wait=0.0))


@pytest.mark.parametrize("how", ["renamed", "copied and cut"])
def test_a_log_that_is_rotated(plant, tmp_path, how):
    """The new file is longer than the old one was, and the old one got rows after it was looked at last."""
    path, live = tmp_path / "live.csv", plant[1]
    L, head = lines(live), "time," + ",".join(live)
    path.write_text("\n".join([head, *L[:30]]) + "\n")

    def rotate():
        time.sleep(0.3)
        with path.open("a") as file:
            file.write("\n".join(L[30:50]) + "\n")
        text = "\n".join([head, *L[50:]]) + "\n"
        if how == "renamed":
            os.replace(path, tmp_path / "live.csv.1")
            path.write_text(text)
        else:
            time.sleep(0.3)
            path.write_text(text)

    thread = threading.Thread(target=rotate)
    thread.start()
    follow(plant, follow_csv(path, wait=1.0, poll=0.05))
    thread.join()


@pytest.fixture(scope="module")
def broker():
    pytest.importorskip("paho.mqtt.client")
    pytest.importorskip("amqtt.broker")
    one = Broker().start()
    yield one
    one.stop()


def row(**more):
    return "plant/rows", json.dumps({"time": "2026-01-02T02:40:00", **more})


JUNK = [
    *(("plant/rows", text) for text in (b"\xff\xfe", "5", "null")),
    *(("plant/rows", f'{{"time":{when},"unit0__x0":1}}') for when in ("1e400", "[1,2]")),
    ("plant/rows", '{"time":"2026-01-02","a":{"b":1}}'),
    ("plant/rows", '{"time":true,"unit0__x0":1}'),
    row(**{"k" * 100_000: "text"}),
]  # fmt: skip
MQTT = {
    "clean": [],
    "clock of 2099": [("plant/rows", '{"time": "2099-01-01", "unit0__x0": 1.0}')],
    "time with a zone": "zone",
    "deep JSON": [("plant/rows", "[" * 100_000)],
    "junk": JUNK,
}


@pytest.mark.parametrize("case", MQTT)
def test_a_broker(plant, broker, case):
    live = plant[1]
    messages = as_messages(live)
    if MQTT[case] == "zone":
        messages[100] = ("plant/rows", messages[100][1].replace(':00"', ':00Z"', 1))
    else:
        messages[100:100] = MQTT[case]
    sender = publish(broker.port, messages, gap=0.0005)
    follow(plant, follow_mqtt("127.0.0.1", "plant/+", port=broker.port, wait=1.5))
    sender.join()


def test_a_broker_as_fast_as_it_goes(plant, broker):
    live = plant[1]
    sender = publish(broker.port, as_messages(live))
    follow(plant, follow_mqtt("127.0.0.1", "#", port=broker.port, wait=1.5))
    sender.join()


def test_a_broker_that_is_restarted(plant):
    pytest.importorskip("paho.mqtt.client")
    pytest.importorskip("amqtt.broker")
    one, messages = Broker().start(), as_messages(plant[1])
    first = publish(one.port, messages[:100], gap=0.001)

    def restart():
        first.join()
        time.sleep(0.3)
        one.stop()
        one.start()
        publish(one.port, messages[100:], delay=3.0, gap=0.001).join()

    thread = threading.Thread(target=restart)
    thread.start()
    follow(plant, follow_mqtt("127.0.0.1", "plant/+", port=one.port, wait=6.0))
    thread.join()
    one.stop()
