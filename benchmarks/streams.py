"""Speed of streams: rows one by one in every container, a million rows and the memory they take, alarm to page.

Run ``python -m benchmarks.streams``. The delay from a row to its page needs paho-mqtt and amqtt.
"""

import argparse
import asyncio
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from skfedcausal import FederatedRCADetector

from . import scale, watch
from ._report import table, write

NOMINAL, HELD = 1500, 20_000
START = pd.Timestamp("2026-01-01")


def plant(n_units):
    """Nominal rows of a plant without loops, and rows to be watched."""
    watch.N_UNITS = n_units
    network = watch.Network(0, control=False)
    return network.run(NOMINAL, 1), network.run(HELD, 2)


def flat(record, first=0):
    """A record as one frame with times."""
    frame = pd.DataFrame({f"{name}__x{k}": y for name, Y in record.items() for k, y in enumerate(Y.T)})
    return frame.set_axis(pd.date_range(START + first * pd.Timedelta("1min"), periods=len(frame), freq="1min"))


def containers(nominal, record, n_rows):
    """Nominal record and single rows by container."""
    frame, later = flat(nominal), flat({name: Y[:n_rows] for name, Y in record.items()}, NOMINAL)
    whole = np.hstack(list(record.values()))[:n_rows]
    yield "dict of arrays", nominal, [{name: Y[k : k + 1] for name, Y in record.items()} for k in range(n_rows)]
    yield "array", frame.to_numpy(), [whole[k : k + 1] for k in range(n_rows)]
    yield "frame with times", frame, [later.iloc[k : k + 1] for k in range(n_rows)]
    names = list(frame)
    rows = zip(later.index, whole, strict=True)
    yield "frame made for each row", frame, [pd.DataFrame([y], columns=names, index=[t]) for t, y in rows]
    yield "series with a time", frame, [later.iloc[k] for k in range(n_rows)]


def one_by_one(n_units, n_rows):
    """Processor time of a row that comes alone, by container and by how the stream is asked."""
    found, (nominal, record) = [], plant(n_units)
    labels = [name for name, Y in nominal.items() for _ in Y.T]
    for name, learned, rows in containers(nominal, record, n_rows):
        detector = FederatedRCADetector(client_labels=labels if name == "array" else "from_columns").fit(learned)
        row = {"units": n_units, "container": name}
        for how in ("update", "predict_root_cause", "incidents"):
            detector.reset()
            answers = map(detector.update, rows) if how == "update" else getattr(detector, how)(iter(rows))
            row[f"{how}, ms a row"] = f"{1e3 * np.median(costs(answers)):.2f}"
        found.append(row)
    return found


def costs(answers):
    """Seconds of processor time an answer, of stretches of 50."""
    marks = [time.process_time() for k, _ in enumerate(answers) if k % 50 == 0]
    return np.diff(marks) / 50


def resident():
    """Resident memory now, MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def many_rows(n_rows, size=1000):
    """Processor time of a long stream and the memory it takes on its way."""
    nominal, record = plant(6)
    detector = FederatedRCADetector().fit(nominal)
    found, begun = [], time.process_time()
    for row in range(size, n_rows + 1, size):
        at = (row - size) % HELD
        detector.update({name: Y[at : at + size] for name, Y in record.items()})
        if row in (n_rows // 10, n_rows // 2, n_rows):
            cost = 1e6 * (time.process_time() - begun) / row
            told = {"rows so far": row, "us a row": f"{cost:.1f}", "resident MB": f"{resident():.1f}"}
            found.append(told | {"alarms": detector.alarms_["n_alarms"]})
    return found


# -- alarm to page -----------------------------------------------------------------------------------


def alarm_to_page(n_faults=10):
    """Seconds from the publication of the row that raises the alarm to the page that tells of it."""
    import paho.mqtt.client as mqtt

    delays, nominal, record = [], *plant(6)
    port = start_broker()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        flat(nominal).to_csv(place / "nominal.csv")
        words = f'[watch]\nnominal = "{place}/nominal.csv"\nsource = "mqtt://127.0.0.1:{port}/plant/rows"\n'
        (place / "w.toml").write_text(words + "refresh = 1\nwait = 20\n")
        command = [sys.executable, "-m", "skfedcausal", "watch", str(place / "w.toml")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        page = place / "watch.html"
        while not page.exists():
            time.sleep(0.1)
        time.sleep(2)  # it subscribes
        sender = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        sender.connect("127.0.0.1", port)
        sender.loop_start()
        rows = flat(record, NOMINAL)
        columns = [name for name in rows if name.startswith("u2__")]
        size = 6 * rows[columns].std()
        for k in range(n_faults):
            for row in range(150 * k, 150 * k + 150):
                values = rows.iloc[row].copy()
                if row == 150 * k + 140:
                    time.sleep(3)  # the end of the incident before, and its report with pictures
                    before = told(page)
                if row >= 150 * k + 140:  # a fault that passes
                    values[columns] += size
                published = time.monotonic()
                text = json.dumps({"time": str(rows.index[row]), **values})
                sender.publish("plant/rows", text, qos=1).wait_for_publish(5)
                if row >= 150 * k + 140 and (found := waited(page, before)) is not None:
                    delays.append(found - published)
                    break
                time.sleep(0.002)
        sender.loop_stop()
        process.terminate()
        process.wait()
    return {
        "faults": n_faults,
        "told": len(delays),
        "median s": f"{np.median(delays):.2f}",
        "most s": f"{max(delays):.2f}",
    }


def told(page):
    """The table of a page."""
    return page.read_text().partition("Incidents")[2]


def waited(page, before, most=1.5):
    """Time at which a page tells something else than before, None if it does not."""
    end = time.monotonic() + most
    while time.monotonic() < end:
        if told(page) != before:
            return time.monotonic()
        time.sleep(0.005)
    return None


def start_broker():
    """A broker in a thread, its port."""
    from amqtt.broker import Broker

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }
    started = threading.Event()

    async def serve():
        await Broker(config).start()
        started.set()
        await asyncio.sleep(3600)

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    started.wait(10)
    return port


# -- many units --------------------------------------------------------------------------------------


def many_units(n_units, n_jobs, seed=0):
    """Seconds of a fit to a plant of many units, processor time of the next rows, and whether a fault is named."""
    with tempfile.TemporaryDirectory() as folder:
        truth = scale.Truth(scale.saved(Path(folder), n_units, seed))
        nominal = {name: np.array(Y[:-1000]) for name, Y in truth.X.items()}
        later = {name: np.array(Y[-1000:]) for name, Y in truth.X.items()}
        clients = truth.clients()
    began, used = time.perf_counter(), time.process_time()
    detector = FederatedRCADetector(clients, n_jobs=n_jobs).fit(nominal)
    row = {"units": n_units, "fit, s": f"{time.perf_counter() - began:.0f}"}
    row["CPU s here"] = f"{time.process_time() - used:.0f}"
    root = list(nominal)[n_units // 3]
    faulty = {name: Y.copy() for name, Y in later.items()}
    faulty[root][300:] += 2 * nominal[root].std(axis=0)
    for name, rows in (("quiet", later), ("with a fault", faulty)):
        detector.reset()
        used = time.process_time()
        found = detector.update(rows)
        row[f"{name}, ms a row"] = f"{time.process_time() - used:.2f}"
    first = found[(found.detected >= 300) & (found.kind != "drift")]
    row["named"] = "no" if first.empty else f"{first.root.iloc[0] == root}, row {first.detected.iloc[0]}"
    return row | {"peak GiB": f"{scale.peak():.2f}", "load": f"{os.getloadavg()[0]:.0f}"}


def apart(n_units):
    """The row of a plant in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.streams", "--part", str(n_units)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(told.stdout.splitlines()[-1])


def main():
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--single", type=int, default=2000)
    parser.add_argument("--units", type=int, nargs="*", default=[64, 256, 1000])
    parser.add_argument("--part", type=int, help="print the row of a plant of so many units")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.part:
        print(json.dumps(many_units(options.part, 2 if options.part > 500 else None)))
        return
    load = os.getloadavg()[0]
    sections = [
        f"Processor time of one thread on {platform.machine()} with {os.cpu_count()} processors shared with other work "
        f"(load {load:.1f} at the start): a quiet machine is faster. Units of two states and four sensors.",
        "## Rows one by one\n\nMedians of stretches of 50 rows.\n\n"
        + table([row for n in (8, 10) for row in one_by_one(n, options.single)]),
        f"## {options.rows} rows in batches of 1000\n\nSix units; the same 20,000 rows again and again.\n\n"
        + table(many_rows(options.rows)),
    ]
    if find_spec("paho") and find_spec("amqtt"):
        sections.append(
            "## From a row to the page\n\n``python -m skfedcausal watch`` behind a broker in another process; from the "
            "publication of the row that raises an alarm to the page that tells of it, wall clock; faults come "
            "at least three seconds apart, since a report with pictures is written after the page.\n\n"
            + table([alarm_to_page()])
        )
    if options.units:
        sections.append(
            "## Many units\n\nTwo states, eight sensors, 1.5 links a unit, 4000 nominal rows, a batch of 1000 rows, a "
            "fault of two standard deviations from its row 300 on; each plant in a process of its own, "
            "above 500 units two.\n\n" + table([apart(n) for n in options.units])
        )
    sections.append(f"Load at the end: {os.getloadavg()[0]:.1f}.")
    write("streams", "Speed of streams", "\n\n".join(sections))


if __name__ == "__main__":
    main()
