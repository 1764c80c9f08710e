"""A watch that goes on: lasting changes, inputs, drift, batches that do not fit, the command."""

import asyncio
import json
import subprocess
import sys
import threading
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import FederatedRCADetector, inspection
from skfedcausal.commands.watch import main as watch
from skfedcausal.containers.rows import StreamTimes
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.streams import StreamWarning

from .test_rca import framed, rows, simulate

pytestmark = pytest.mark.medium

BEYOND = pytest.mark.filterwarnings("ignore:Input .* is beyond")


@pytest.fixture(scope="module")
def nominal():
    return simulate(2500, seed=1)


@pytest.fixture(scope="module")
def detector(nominal):
    return FederatedRCADetector().fit(nominal)


@pytest.fixture
def own(detector):
    """A copy of that detector, for tests that let it learn more."""
    return deepcopy(detector)


@pytest.fixture(scope="module")
def timed(nominal):
    return FederatedRCADetector().fit(framed(nominal))


@pytest.fixture(scope="module")
def numbered(nominal):
    """Of a frame whose rows have no times."""
    return FederatedRCADetector().fit(framed(nominal).reset_index(drop=True))


@pytest.fixture
def two_faults():
    """A permanent fault of unit1 from row 200 on, another of unit3 from row 500 on."""
    X, other = simulate(900, seed=11, fault=1, size=1.5), simulate(900, seed=11, fault=3, size=1.5, at=500)
    quiet = simulate(900, seed=11)
    return {name: X[name] + other[name] - quiet[name] for name in X}


def cut(X, size):
    n_rows = len(next(iter(X.values())))
    return (rows(X, k, min(k + size, n_rows)) for k in range(0, n_rows, size))


@pytest.fixture(scope="module")
def short_faults():
    """A detector of a nonlinear plant, and a record of it with faults of ten rows."""
    about = {"dynamics": "lstm", "strength": 0.5, "process_noise": 0.3, "sensor_noise": 1.0, "plant_state": 3}
    train = make_nonlinear_plant(n_samples=6000, size=0, random_state=1, **about).data
    return FederatedRCADetector(false_alarm_rate=1 / 500).fit(train), make_nonlinear_plant(
        n_samples=4200, size=2.0, random_state=3, **about
    )


def test_no_incident_begins_in_the_one_before_it(short_faults):
    detector, record = short_faults
    found = detector.incidents(record.data)
    assert len(found) >= len(record.faults)
    ends = found["end"].to_numpy()[:-1]
    assert (found["start"].to_numpy()[1:] > ends).all()


def test_incidents_that_follow_each_other_closely_are_the_same_in_streams(short_faults):
    detector, record = short_faults
    list(detector.incidents(cut(record.data, 30)))
    columns = ["start", "detected", "end", "root", "repeats"]
    pd.testing.assert_frame_equal(
        detector._stream.table()[columns], detector.incidents(record.data)[columns], check_dtype=False
    )


# --- changes that stay --------------------------------------------------------------------------------


def test_a_second_fault_is_found_after_one_that_stays(detector, two_faults):
    found = detector.incidents(two_faults).query("detected >= 195 and kind != 'drift'")
    assert found.root.tolist()[:2] == ["unit1", "unit3"]
    first, second = found.detected.iloc[:2]
    assert 200 <= first < 240
    assert 500 <= second < 540
    assert found.end.iloc[0] < 320
    assert len(found) <= 3


def test_an_acknowledged_incident_has_no_repeats(detector):
    X, stronger = simulate(900, seed=11, fault=1), simulate(900, seed=11, fault=1, size=2.0, at=500)
    quiet = simulate(900, seed=11)
    twice = {name: X[name] + stronger[name] - quiet[name] for name in X}
    found = detector.incidents(twice).query("detected >= 195 and root == 'unit1'")
    assert len(found) == 1
    assert any(500 <= again < 540 for again, _ in found.repeats.iloc[0])
    detector.reset()
    told = pd.concat([detector.update(batch) for batch in cut(rows(twice, 0, 450), 50)])
    inspection.acknowledge(detector, told.query("detected >= 195").iloc[0])
    later = pd.concat([detector.update(batch) for batch in cut(rows(twice, 450, 900), 50)])
    assert ((later.detected >= 500) & (later.detected < 540) & (later.root == "unit1")).any()
    with pytest.raises(ValueError, match="no incident that was detected at 12345"):
        inspection.acknowledge(detector, 12345)


def test_a_level_that_was_taken_anew_is_no_incident(detector):
    X = simulate(700, seed=11, fault=1)
    detector.reset()
    for batch in cut(rows(X, 0, 260), 20):
        detector.update(batch)
    inspection.rebaseline(detector)
    later = pd.concat([detector.update(batch) for batch in cut(rows(X, 260, 700), 20)])
    assert not len(later.query("root == 'unit1' and detected > 300"))
    with pytest.raises(ValueError, match="unknown units 'nobody'"):
        inspection.rebaseline(detector, ["nobody"])
    assert 0 < detector.alarms_["in_alarm"] < 0.5


def test_slow_drift_is_followed_and_told():
    rng = np.random.default_rng(0)
    X = simulate(2500, seed=1)
    later = simulate(4000, seed=2)
    later["unit2"] = later["unit2"] + np.linspace(0, 2, 4000)[:, None] * rng.standard_normal(later["unit2"].shape[1])
    detector = FederatedRCADetector().fit(X)
    found = detector.incidents(later)
    assert (detector.predict(later) == -1).mean() < 0.05
    assert "unit2" in found.query("kind == 'drift'").root.tolist()


def test_a_single_row_is_not_taken_for_nominal(own):
    later = simulate(600, seed=11, fault=1, size=1.5)
    before = own.transform(later)
    for nothing in ({name: Y[:1] for name, Y in later.items()}, {name: np.nan * Y for name, Y in later.items()}):
        with pytest.raises(ValueError, match="single rows, or without measurements, tells nothing"):
            own.partial_fit(nothing)
    assert_array_equal(own.transform(later), before)


def test_rows_in_which_a_unit_is_absent_tell_nothing_of_it(own):
    before = own._root_cause.nominal_point
    again = {name: np.nan * Y if name == "unit1" else Y for name, Y in simulate(1200, seed=5).items()}
    after = own.partial_fit(again)._root_cause.nominal_point
    unit = own.client_names_.index("unit1")
    for name in ("own", "given", "whole"):
        factors = getattr(after, name) / getattr(before, name)
        assert factors[unit] == 1.0
        assert np.abs(factors - 1).max() < 0.1  # they were as in the first record


def test_what_others_tell_of_a_unit_is_judged_by_rows_with_all_of_them():
    """Two units that are pushed together: with one of them away, the other is told by nobody."""
    rng = np.random.default_rng(4)
    pushes, h = rng.standard_normal((4000, 2)) + 2 * rng.standard_normal((4000, 1)), np.zeros((4000, 2))
    for t in range(1, 4000):
        h[t] = 0.7 * h[t - 1] + pushes[t]
    Y = np.repeat(h, 3, axis=1) + 0.3 * rng.standard_normal((4000, 6))
    parts = [{"a": part[:, :3], "b": part[:, 3:]} for part in (Y[:2500], Y[2500:])]
    detector = FederatedRCADetector().fit(parts[0])
    before = detector._root_cause.nominal_point.given
    parts[1]["b"][500:] = np.nan
    after = detector.partial_fit(parts[1])._root_cause.nominal_point.given
    assert np.abs(after / before - 1).max() < 0.1


def test_forgetting_is_the_share_that_is_lost(detector):
    later = {name: Y + 0.5 * Y.std(axis=0) for name, Y in simulate(2500, seed=3).items()}
    before, moved = detector.transform(later), []
    for forget in (0.0, None, 0.5, 1.0):
        moved.append(np.abs(deepcopy(detector).partial_fit(later, forget=forget).transform(later) - before).max())
    assert moved[0] == moved[1] < moved[2] < moved[3]


def test_what_is_nominal_is_brought_up_to_date(detector, own, nominal):
    moved = {name: Y + 0.5 * Y.std(axis=0) for name, Y in simulate(2500, seed=3).items()}
    later = {name: Y + 0.5 * Y.std(axis=0) for name, Y in simulate(1000, seed=4).items()}
    before = (own.transform(later) > 1).any(axis=1).mean()
    assert own.partial_fit(moved, forget=1.0) is own
    assert (own.transform(later) > 1).any(axis=1).mean() < min(before, 0.02)
    with pytest.raises(ValueError, match="forget=2"):
        own.partial_fit(moved, forget=2)
    fresh = FederatedRCADetector().partial_fit(nominal)
    assert fresh.thresholds_ == detector.thresholds_


# --- inputs -------------------------------------------------------------------------------------------


def push(X, u):
    """Add what unit0 does after u, the rows before, to its sensors."""
    response = np.zeros(len(u))
    for t in range(1, len(u)):
        response[t] = 0.8 * response[t - 1] + u[t - 1]
    X["unit0"] = X["unit0"] + np.outer(response, np.linspace(0.5, 1.5, X["unit0"].shape[1]))


def driven(n_samples, seed, fault=None, every=100):
    """A plant whose unit0 is driven by a set-point that moves, and its inputs."""
    rng, X = np.random.default_rng([seed, 5]), simulate(n_samples, seed=seed, fault=fault, size=1.0)
    u = np.repeat(rng.standard_normal(n_samples // every + 1) * 3, every)[:n_samples]
    push(X, u)
    return X, {"unit0": u[:, None]}


@pytest.fixture(scope="module")
def told_inputs():
    X, inputs = driven(4000, 1)
    return FederatedRCADetector().fit(X, inputs=inputs)


def test_moves_of_inputs_are_no_incidents_and_a_fault_is_found(told_inputs):
    X, inputs = driven(2000, 2)
    assert len(told_inputs.incidents(X, inputs=inputs).query("kind != 'drift'")) <= 6  # budget: two
    X, inputs = driven(500, 3, fault=2)
    found = told_inputs.incidents(X, inputs=inputs).query("detected >= 195")
    assert found.root.iloc[0] == "unit2"
    assert told_inputs.attribute(X, start=200, end=280, inputs=inputs).client[0] == "unit2"
    with pytest.raises(ValueError, match=r"no `inputs`, but unit\(s\) 'unit0'"):
        told_inputs.incidents(X)


def test_streams_are_pairs_with_inputs(told_inputs):
    X, inputs = driven(500, 3, fault=2)
    whole = told_inputs.predict_root_cause(X, inputs=inputs)
    joined = np.full(500, "?", dtype=object)
    pairs = ((rows(X, k, k + 25), rows(inputs, k, k + 25)) for k in range(0, 500, 25))
    for where, roots in told_inputs.predict_root_cause(pairs):
        joined[where] = roots
    assert_array_equal(joined, whole)


def stepped(size, fault=None, at=200):
    """A set-point that goes where it never was, and its inputs."""
    X, inputs = driven(600, 4, fault=fault, every=1000)
    step, moved = np.where(np.arange(600) >= at, size, 0.0), np.zeros(600)
    for t in range(1, 600):
        moved[t] = 0.8 * moved[t - 1] + step[t - 1]
    X["unit0"] = X["unit0"] + np.outer(moved, np.linspace(0.5, 1.5, X["unit0"].shape[1]))
    return X, {"unit0": inputs["unit0"] + step[:, None]}


@BEYOND
def test_a_set_point_never_seen_is_learned(told_inputs):
    X, inputs = stepped(40.0)
    assert not len(told_inputs.incidents(X, inputs=inputs).query("detected >= 200 and detected < 300"))


@BEYOND
def test_a_plant_that_does_as_foreseen_at_a_set_point_is_watched_there(told_inputs):
    """Sixty rows after the move, long before a level would be learned anew."""
    X, inputs = stepped(8.0, fault=2, at=140)
    found = told_inputs.incidents(X, inputs=inputs).query("detected >= 140")
    assert found.root.iloc[0] == "unit2"
    assert found.detected.iloc[0] < 140 + 100


def moded(n_samples, seed, fault=None, strange=()):
    """A plant whose input is one of two modes, but for a stretch of rows at another one."""
    X, u = simulate(n_samples, seed=seed, fault=fault, size=1.0), (np.arange(n_samples) // 150 % 2).astype(float)
    if strange:
        u[slice(*strange)] = 2.0
    push(X, 3 * u)
    return X, {"unit0": u[:, None]}


@pytest.fixture(scope="module")
def told_modes():
    X, inputs = moded(3000, 1)
    return FederatedRCADetector().fit(X, inputs=inputs)


@BEYOND
@pytest.mark.parametrize("more", [{}, {"fault": 2}, {"strange": (405, 800)}])
def test_roots_in_told_modes_are_the_same_however_a_stream_is_cut(told_modes, more):
    (X, inputs), found = moded(1000, 7, **more), []
    for size in (500, 120, 19, *([1] if "strange" in more else [])):  # single rows take long
        labels = np.full(1000, "?", dtype=object)
        for where, roots in told_modes.predict_root_cause(zip(cut(X, size), cut(inputs, size), strict=True)):
            labels[where] = roots
        found.append(labels)
    for others in found[1:]:
        assert_array_equal(others, found[0])


# --- batches ------------------------------------------------------------------------------------------


def test_single_rows_may_be_flat_and_streams_asynchronous(detector):
    X = simulate(60, seed=12)
    whole = detector.predict_root_cause(X)

    async def source():
        for k in range(60):
            yield {name: Y[k] for name, Y in X.items()}

    async def follow():
        joined = np.full(60, "?", dtype=object)
        async for where, roots in detector.predict_root_cause(source()):
            joined[where] = roots
        return joined

    assert_array_equal(asyncio.run(follow()), whole)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: X.drop(columns=X.columns[0]), "'unit0__s0' are missing from the batch"),
        (lambda X: X.assign(other__x=1.0), "'other__x' of the batch were not there"),
        (lambda X: X.set_axis(X.index - pd.Timedelta("70min")), "go back to"),
        (lambda X: X.set_axis(X.index + pd.Timedelta("1D")), "monitoring restarts"),
        (lambda X: X.astype(object).mask(X > 0, "on"), "hold something other than numbers: taken as missing"),
        (lambda X: X.mask(X > 0, np.inf), "are infinite: taken as missing"),
        (lambda X: X.sample(frac=1.0, random_state=0), "not in time order: they are sorted"),
        (lambda X: X.tz_localize("UTC"), "have a zone and those before have none"),
        (lambda X: pd.concat([X, X.iloc[:, :1]], axis=1), "'unit0__s0' of the batch came more than once"),
        (lambda X: X.set_axis([f"other__{k}" for k in range(X.shape[1])], axis=1), "is left out. A batch has none of"),
        (lambda X: X.iloc[::2], "is left out. X has a row every 0 days 00:02:00"),
    ],
)
@pytest.mark.filterwarnings("ignore:There are no rows between:UserWarning")
def test_a_batch_that_does_not_fit_is_named_and_the_watch_goes_on(timed, spoil, message):
    X = framed(simulate(500, seed=11, fault=1, size=1.5))
    parts = [X.iloc[:100], X.iloc[100:160], X.iloc[160:]]
    if "restarts" in message:
        parts[2] = spoil(parts[2])
    else:
        parts[1] = spoil(parts[1])
    with pytest.warns(StreamWarning, match=message):
        tables = list(timed.incidents(iter(parts)))
    assert "unit1" in tables[-1].root.tolist()
    if message.startswith("'unit0"):
        with pytest.raises(ValueError, match="unit0__s0"):
            timed.update(spoil(parts[1]))


def test_units_nobody_knows_and_units_that_are_missing_are_named(detector):
    X = simulate(300, seed=12)
    batches = [rows(X, 0, 100), {**rows(X, 100, 200), "extra": np.ones((100, 2))}, rows(X, 200, 300)]
    del batches[2]["unit3"]
    with pytest.warns(StreamWarning) as told:
        assert len(list(detector.incidents(iter(batches)))) == 3
    said = " ".join(str(one.message) for one in told)
    assert "'extra' are not known" in said
    assert "'unit3' are missing" in said


def test_units_that_come_with_other_rows_are_taken_as_missing(detector):
    X = simulate(300, seed=12)
    batches = [rows(X, 0, 100), rows(X, 100, 200) | {"unit1": X["unit1"][100:150], "unit2": None}, rows(X, 200, 300)]
    with pytest.warns(StreamWarning) as told:
        roots = [found for _, found in detector.predict_root_cause(iter(batches))]
    said = " ".join(str(one.message) for one in told)
    assert "'unit1' came with 50 rows in place of 100" in said
    assert "'unit2' are missing" in said
    assert sum(map(len, roots)) >= 300


def test_a_stop_inside_a_batch_begins_the_watch_anew(timed):
    X = framed(simulate(500, seed=11, fault=1, size=1.5))
    late = X.iloc[100:].set_axis(X.index[100:] + pd.Timedelta("1D"))
    with pytest.warns(StreamWarning, match="monitoring restarts"):
        joined = list(timed.incidents(iter([pd.concat([X.iloc[:100], late])])))[-1]
    with pytest.warns(StreamWarning, match="monitoring restarts"):
        apart = pd.concat(timed.incidents(iter([X.iloc[:100], late])))
    pd.testing.assert_frame_equal(joined, apart.reset_index(drop=True))


def test_a_first_batch_of_another_plant_is_refused(timed):
    X = framed(simulate(50, seed=11))
    with pytest.raises(ValueError, match="it is of another plant"):
        next(timed.incidents(iter([X.set_axis([f"other__{k}" for k in range(X.shape[1])], axis=1)])))


def by_unit(row):
    units = dict.fromkeys(name.partition("__")[0] for name in row)
    return {unit: row[[name for name in row if name.startswith(f"{unit}__")]] for unit in units}


# a row of a frame in every container that has the names of its columns
CONTAINERS = {
    "frame": lambda row: row,
    "series": lambda row: row.iloc[0],
    "dict": by_unit,
    "new frame": lambda row: pd.DataFrame(row.to_numpy(), row.index, list(row)),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_single_rows_with_times_give_what_one_batch_gives(timed, container):
    X = framed(simulate(300, seed=11, fault=1, size=1.5))
    single = [CONTAINERS[container](X.iloc[k : k + 1]) for k in range(len(X))]
    whole, ledger = next(timed.predict_root_cause(iter([X])))[1], timed.stream_ledger_
    joined = np.full(len(X), "?", dtype=object)
    for where, roots in timed.predict_root_cause(iter(single)):
        joined[where] = roots
    assert_array_equal(joined, whole)
    assert "unit1" in joined
    sent = timed.stream_ledger_.table
    assert sent.packets[(sent.op == "states")].tolist() == [len(X)] * 4
    assert timed.stream_ledger_.total("up") > ledger.total("up")
    tables = [table for table in timed.incidents(iter(single)) if len(table)]
    last = pd.concat(tables).drop_duplicates("detected", keep="last").set_index("detected")
    once = next(timed.incidents(iter([X]))).set_index("detected")
    assert last.loc[once.index, "start"].tolist() == once.start.tolist()
    assert last.loc[once.index, "root"].tolist() == once.root.tolist()
    np.testing.assert_allclose(last.loc[once.index, "probability"], once.probability, atol=0.01)  # what is not told


@pytest.mark.parametrize("row", [3, 250])
def test_a_single_row_that_cannot_be_usual_is_looked_at(timed, row):
    X = framed(simulate(300, seed=12))
    X.iloc[row, :2] = np.nan
    joined = np.full(len(X), "?", dtype=object)
    for where, roots in timed.predict_root_cause(X.iloc[k : k + 1] for k in range(len(X))):
        joined[where] = roots
    assert_array_equal(joined, next(timed.predict_root_cause(iter([X])))[1])
    wrong = X.iloc[-1:].set_axis(X.index[-1:] + pd.Timedelta("1min")).assign(unit0__s0=np.inf)
    with pytest.raises(ValueError, match="infinity"):
        timed.update(wrong)


# --- the command --------------------------------------------------------------------------------------


def test_the_command_keeps_a_page_and_tells_an_alarm_system(tmp_path, nominal):
    framed(nominal).to_csv(tmp_path / "nominal.csv", index_label="time")
    live = framed(simulate(500, seed=11, fault=1, size=1.5), start="2026-02-01")
    live.to_csv(tmp_path / "live.csv", index_label="time")
    heard = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "watch.toml").write_text(
        f'[watch]\nnominal = "nominal.csv"\nsource = "csv:live.csv"\nwait = 0.2\nrefresh = 2\n'
        f'webhook = "http://127.0.0.1:{server.server_port}/"\n'
    )
    told = subprocess.run(
        [sys.executable, "-m", "skfedcausal", "watch", str(tmp_path / "watch.toml")], capture_output=True, text=True
    )
    server.shutdown()
    server.server_close()
    assert told.returncode == 3, told.stderr
    assert "unit1" in [row["root"] for row in heard]
    assert [json.loads(line) for line in told.stdout.splitlines()] == heard
    page = (tmp_path / "watch.html").read_text()
    assert 'http-equiv="refresh" content="2"' in page
    assert "unit1" in page
    assert (tmp_path / "watch-1.html").is_file()
    assert 'href="watch-1.html"' in page


def test_the_command_goes_on_whatever_comes(tmp_path, nominal):
    framed(nominal).to_csv(tmp_path / "nominal.csv", index_label="time")
    X = framed(simulate(500, seed=11, fault=1, size=1.5), start="2026-02-01")
    late = X[150:].set_axis(X.index[150:] + pd.Timedelta("1D"))
    with (tmp_path / "live.csv").open("w") as file:
        file.write(X[:100].to_csv(index_label="time"))
        file.write(X[100:150].drop(columns="unit0__s1").assign(other__x=1.0).to_csv(index_label="time"))
        file.write(X[80:90].to_csv(index_label="time") + "garbage\n" + late.to_csv(header=False))
    (tmp_path / "watch.toml").write_text('[watch]\nnominal = "nominal.csv"\nsource = "csv:live.csv"\nwait = 0.2\n')
    told = subprocess.run(
        [sys.executable, "-m", "skfedcausal", "watch", str(tmp_path / "watch.toml")], capture_output=True, text=True
    )
    assert told.returncode == 3, told.stderr
    for words in ("'other__x'", "'unit0__s1'", "came twice", "restarts after the gap", "1 lines of"):
        assert words in told.stderr
    assert "was not written" not in told.stderr
    assert "500 rows so far" in (tmp_path / "watch.html").read_text()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("recipe", ["summer", "winter"]),
        pytest.param("unit1__recipe", ["summer", "winter"], marks=pytest.mark.slow),
        pytest.param("recipe", [1, 2], marks=pytest.mark.slow),
    ],
)
def test_the_command_is_told_the_mode(tmp_path, capsys, column, words):
    """A switch to the other mode is no incident, a fault in it is one; modes are words, or numbers but for one."""
    modes = np.arange(2500) // 250 % 2
    words = np.array(words, dtype=object)
    told = modes[::-1][:500]
    before = {name: Y + 1.5 * modes[:, None] for name, Y in simulate(2500, seed=1).items()}
    after = simulate(500, seed=13, fault=1, size=3.0, at=400)
    after = {name: Y + 1.5 * told[:, None] for name, Y in after.items()}
    nominal = words[modes]
    nominal[:30] = "clean"  # of which there is none in the other file
    framed(before).assign(**{column: nominal}).to_csv(tmp_path / "nominal.csv", index_label="time")
    live = framed(after, start="2026-02-01").assign(**{column: words[told]})
    live.to_csv(tmp_path / "live.csv", index_label="time")
    (tmp_path / "watch.toml").write_text(
        '[watch]\nnominal = "nominal.csv"\nsource = "csv:live.csv"\nwait = 0.2\nmode = "recipe"\n'
    )
    assert watch([str(tmp_path / "watch.toml")]) == 3
    printed = capsys.readouterr()
    assert not printed.err
    rows = [json.loads(line) for line in printed.out.splitlines()]
    alarms = {row["detected"]: row["root"] for row in rows}
    alarms = {pd.Timestamp(detected).tz_localize(None): root for detected, root in alarms.items()}
    assert "unit1" in [root for detected, root in alarms.items() if detected >= live.index[400]]
    assert not any(live.index[240] <= detected < live.index[400] for detected in alarms)
    assert "<img" in (tmp_path / "watch-1.html").read_text() or "<svg" in (tmp_path / "watch-1.html").read_text()


@pytest.mark.parametrize("source", ["live.csv", "tcp://here"])
def test_settings_that_name_no_source_are_refused(tmp_path, source, capsys):
    (tmp_path / "watch.toml").write_text(f'[watch]\nnominal = "nominal.csv"\nsource = "{source}"\n')
    assert watch([str(tmp_path / "watch.toml")]) == 1
    assert "csv:live.csv" in capsys.readouterr().err


def test_rows_without_times_follow_those_before(timed):
    X = framed(simulate(500, seed=11, fault=1, size=1.5))
    whole = timed.incidents(X)
    parts = [X[:150], X[150:250].reset_index(drop=True), X[250:]]
    with pytest.warns(StreamWarning, match="100 rows came without times: they are taken to follow"):
        found = pd.concat(list(timed.incidents(iter(parts))))
    assert set(found["detected"]) <= set(whole["detected"])
    assert found["detected"].dtype.kind == "M"


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_row_may_come_as_flat_numbers(numbered):
    X = framed(simulate(120, seed=11, fault=1, size=1.5)).reset_index(drop=True)

    def told(rows):
        return np.concatenate([roots for _, roots in numbered.predict_root_cause(rows)])

    whole = told(X[k : k + 1] for k in range(len(X)))
    assert (told(X.iloc[k].to_dict() for k in range(len(X))) == whole).all()
    assert (told(X.iloc[k].tolist() for k in range(len(X))) == whole).all()


@pytest.mark.filterwarnings("ignore:X has no rows between", "ignore:There are no rows between")
@pytest.mark.parametrize("kind", ["frame", "array"])
def test_inputs_go_with_the_rows_that_are_kept(kind):
    """Of a batch in no order, with rows that have no time and others that came before."""

    def timed_rows(n, seed):
        X, inputs = driven(n, seed)
        return framed(X), np.asarray(inputs["unit0"])

    X, U = timed_rows(2500, 1)
    detector = FederatedRCADetector().fit(X, inputs={"unit0": U})
    X, U = timed_rows(600, 2)

    def followed(parts):
        beside = [{"unit0": pd.DataFrame(u, x.index) if kind == "frame" else u} for x, u in parts]
        told = list(detector.predict_root_cause(iter([(x, u) for (x, _), u in zip(parts, beside, strict=True)])))
        return told, [np.array(last) for last in detector._stream.last_inputs if last is not None]

    expected, last = followed([(X[:300], U[:300]), (X[300:], U[300:])])
    order = np.r_[np.random.default_rng(0).permutation(np.arange(250, 600)), 0, 0]
    times = X.index[order].to_series()
    times.iloc[-2:] = pd.NaT
    with pytest.warns(StreamWarning):
        found, now = followed([(X[:300], U[:300]), (X.iloc[order].set_axis(pd.DatetimeIndex(times)), U[order])])
    assert [where for where, _ in found] == [where for where, _ in expected]
    assert_array_equal(now, last)
    assert_array_equal(np.concatenate([r for _, r in found]), np.concatenate([r for _, r in expected]))


def test_a_batch_may_come_as_columns_by_flat_names(numbered):
    X = framed(simulate(120, seed=11, fault=1, size=1.5)).reset_index(drop=True)
    found = list(numbered.predict_root_cause(iter([{name: X[name].to_numpy() for name in X}])))
    assert_array_equal(found[-1][1], numbered.predict_root_cause(X)[found[-1][0]])
    assert found[-1][0].stop == 120


@pytest.mark.filterwarnings("ignore:X has no rows between")
def test_rows_without_a_time_among_others_are_named(timed):
    X = framed(simulate(300, seed=11, fault=1, size=1.5))
    times = X.index.to_series()
    times.iloc[[40, 41]] = pd.NaT
    holes = X.set_axis(pd.DatetimeIndex(times), axis=0)
    with pytest.raises(ValueError, match=r"2 of 300 rows of X have no time \(NaT\), row 40 first"):
        timed.incidents(holes)
    with pytest.warns(StreamWarning, match="2 rows of a batch have no time: they are left out"):
        found = [where for where, _ in timed.predict_root_cause(iter([holes]))]
    assert found == [slice(0, 298)]


def test_an_incident_that_is_none_is_named(timed):
    with pytest.raises(TypeError, match=r"Got 3 as an incident; give one row of `incidents\(X\)`"):
        inspection.tags(timed, framed(simulate(100, seed=11)), 3)


def test_times_in_place_of_measurements_are_missing(timed):
    X = framed(simulate(60, seed=11))
    spoiled = X.assign(unit2__s0=X.index)
    with pytest.warns(StreamWarning, match="'unit2__s0' of the batch hold something other than numbers"):
        found = list(timed.incidents(iter([spoiled])))
    empty = list(timed.incidents(iter([X.assign(unit2__s0=np.nan)])))
    pd.testing.assert_frame_equal(found[0], empty[0])


@pytest.mark.filterwarnings("ignore:One false alarm per")
def test_a_window_without_measurements_names_nobody():
    """Unit a acts on unit b, of which nothing is seen either."""
    rng, h = np.random.default_rng(0), np.zeros((2400, 2))
    for t in range(1, 2400):
        h[t] = np.array([[0.7, 0.0], [0.3, 0.6]]) @ h[t - 1] + 0.5 * rng.standard_normal(2)
    Y = np.repeat(h, 3, axis=1) + 0.3 * rng.standard_normal((2400, 6))
    detector = FederatedRCADetector().fit({"a": Y[:1600, :3], "b": Y[:1600, 3:]})
    Y[1700:1900] = np.nan
    found = detector.attribute({"a": Y[1600:, :3], "b": Y[1600:, 3:]}, start=100, end=200)
    np.testing.assert_allclose(*found.probability, rtol=0.01)


def test_the_times_of_a_large_batch_are_known_until_it_was_told():
    times, index = StreamTimes(100), pd.date_range("2026-01-01", periods=2000, freq="min")
    for k in range(0, 2000, 500):
        times.extend(index[k : k + 500])
        assert times[k] == index[k]
        assert k == 0 or times[k - 100] == index[k - 100]
