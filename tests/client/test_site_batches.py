"""Watched records in batches: the same answers as one call, whoever stops in between, also one way."""

import shutil
import threading
import time

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import Baseline, FederatedRCADetector, KalmanClient, inspection
from skfedcausal.client.site_record import SiteModes
from skfedcausal.client.watching import Batch
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import ClientError, FileSite, FileTransport, InProcessTransport, Packet
from skfedcausal.federation.ledger import read_ledger, verify_ledger
from skfedcausal.message.requests import FitRequest, WatchRequest
from skfedcausal.sites.site import read_site_settings

pytestmark = pytest.mark.medium

UNITS = ("mill", "kiln")
X, _ = make_granger_plant(2, names=UNITS, n_samples=700, links=[(0, 1)], random_state=0)
NOMINAL = {name: Y[:300] for name, Y in X.items()}
WATCHED = {name: Y[300:].round(1) for name, Y in X.items()}  # coarser than before: what units keep matters
WATCHED["kiln"][160:290] += 4.0 * X["kiln"].std(axis=0)
CUTS = (0, 150, 170, 171, 300, 400)  # the fault begins in one batch and ends in another one
PARTS = [{n: Y[i:j] for n, Y in WATCHED.items()} for i, j in zip(CUTS[:-1], CUTS[1:], strict=True)]
KEYS = {name: name.encode() * 8 for name in UNITS}
REQUEST = FitRequest(monitor=True).to_packet(1)


def detector():
    return FederatedRCADetector(false_alarm_rate=0.01)


@pytest.fixture(scope="module")
def here():
    """Incidents by one call on the whole record and in batches, in one process."""
    fitted = detector().fit(NOMINAL)
    for part in PARTS:
        fitted.update(part)
    return fitted.incidents(WATCHED), known(fitted)


def known(fitted):
    """Incidents of a stream as they are known now; `update` tells no revision of a probability by less than .01."""
    return fitted._stream.table()


@pytest.fixture
def plant(tmp_path):
    """Sites whose watched records are folders without batches."""
    for name in UNITS:
        np.save(tmp_path / f"{name}.npy", NOMINAL[name])
        (tmp_path / f"{name}-watched").mkdir()
        (tmp_path / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}.npy"\nwatched = "{name}-watched"\n'
        )
    return tmp_path


def add(plant, *numbers, units=UNITS):
    for name in units:
        for k in numbers:
            np.save(plant / f"{name}-watched/day{k}.npy", PARTS[k][name])


def gate(plant, name):
    return read_site_settings(plant / f"{name}.toml").gate(key=KEYS[name])


class Running:
    """The sites of a plant in threads."""

    def __init__(self, plant):
        self.plant, self.stop, self.threads = plant, False, []

    def __enter__(self):
        for name in UNITS:
            site = FileSite(gate(self.plant, name), self.plant / "exchange")
            settings = {"stop": lambda: self.stop}
            self.threads.append(threading.Thread(target=site.serve, kwargs=settings, daemon=True))
            self.threads[-1].start()
        return self

    def __exit__(self, *_):
        self.stop = True
        for thread in self.threads:
            thread.join()


def transport(plant, **settings):
    settings = {"timeout": 30.0, "journal": plant / "journal"} | settings
    return FileTransport(plant / "exchange", UNITS, "march", KEYS, **settings)


def watched(plant, wait=0.0, **settings):
    """Incidents as the server's command finds them: fitted, followed, closed."""
    link = transport(plant, **settings)
    found = inspection.watch_sites(detector().fit_sites(link), wait=wait)
    link.close()
    return found


def send_all(plant):
    """What one-way sites send on their own."""
    for name in UNITS:
        site = FileSite(gate(plant, name), plant / "exchange")
        site.send("march", REQUEST)
        k = 1
        while site.send("march", WatchRequest(k).to_packet(1)) is not None:
            k += 1


def asked(plant, name):
    """Packets that a site took and answered, in their order."""
    entries = read_ledger(plant / f"home-{name}/ledger.jsonl")
    return [entry["op"] for entry in entries if entry["event"] == "taken"]


def check(found, here):
    whole, batches = here
    pd.testing.assert_frame_equal(found, batches, check_exact=True)
    pd.testing.assert_frame_equal(found, whole, check_exact=False, rtol=1e-6)
    assert "kiln" in list(found["root"])


@pytest.mark.parametrize("one_way", [False, True])
def test_batches_over_files_answer_as_one_call_on_the_whole(plant, here, one_way):
    add(plant, *range(len(PARTS)))
    if one_way:
        send_all(plant)
        check(watched(plant, one_way=True), here)
        assert not list(plant.glob("exchange/*/inbox/*"))
        return
    with Running(plant):
        check(watched(plant), here)
    assert asked(plant, "mill") == ["fit", "reply", *["watch", "verdict"] * len(PARTS), "watch", "close"]
    files = sorted((plant / "home-mill/answers").glob("*.csv"), key=lambda path: path.stat().st_mtime_ns)
    told = [pd.read_csv(path) for path in files]  # the onset is revised
    told = pd.concat(told).groupby("first").last()
    repeated = [row for repeats in here[0]["repeats"] for row, _ in repeats]
    alarms = [*here[0]["detected"], *repeated]
    assert sorted(told.index) == sorted(alarms)
    assert set(here[0]["start"]) <= set(told["onset"])


@pytest.mark.parametrize("one_way", [False, True])
def test_a_run_that_ended_goes_on_when_there_are_further_batches(plant, here, one_way):
    for k in range(len(PARTS)):
        add(plant, k)
        if one_way:
            send_all(plant)
            found = watched(plant, one_way=True)
        else:
            with Running(plant):
                found = watched(plant)
    check(found, here)
    for name in UNITS:
        if one_way:
            assert len(list(plant.glob(f"exchange/{name}/outbox/*"))) == 1 + len(PARTS)
            account = verify_ledger(plant / f"home-{name}/ledger.jsonl")
            assert account["entries"] == 1 + len(PARTS)  # nothing was counted twice
        else:
            useful = [op for op in asked(plant, name) if op in ("fit", "reply", "verdict")]
            assert useful == ["fit", "reply", *["verdict"] * len(PARTS)]


def test_a_unit_whose_batch_is_late_is_waited_for_and_the_others_are_not_asked_again(plant, here):
    add(plant, *range(len(PARTS)), units=["mill"])
    add(plant, 0, units=["kiln"])
    with Running(plant):
        first = watched(plant)
        assert (first["detected"] < CUTS[1]).all()
    link = transport(plant)
    exchange, waited = link.exchange, []

    def adding_exchange(out, *, timeout=None):
        if set(out) == {"kiln"}:
            waited.append(out)
            add(plant, *range(1, len(PARTS)), units=["kiln"])
        return exchange(out, timeout=timeout)

    link.exchange = adding_exchange
    with Running(plant):
        fitted = detector().fit_sites(link)
        for _ in range(len(PARTS)):
            if len(list(inspection.follow_sites(fitted, wait=1.0))):
                break
        link.close()
    check(fitted.site_incidents_, here)
    assert len(waited) == 1


@pytest.mark.parametrize("dies", ["server", "sites"])
def test_after_a_crash_between_batches_nothing_is_counted_twice(plant, here, dies):
    add(plant, *range(len(PARTS)))
    link = transport(plant)
    exchange, n = link.exchange, []

    def dying_exchange(out, *, timeout=None):
        n.append(len(out))
        if len(n) == 7 and dies == "server":
            raise KeyboardInterrupt
        if len(n) == 7:
            running.__exit__()
            running.stop = False
            running.__enter__()
        return exchange(out, timeout=timeout)

    link.exchange = dying_exchange
    with Running(plant) as running:
        if dies == "server":
            with pytest.raises(KeyboardInterrupt):
                inspection.watch_sites(detector().fit_sites(link))
            check(watched(plant), here)
        else:
            check(inspection.watch_sites(detector().fit_sites(link)), here)
            link.close()
    for name in UNITS:
        assert asked(plant, name).count("verdict") == len(PARTS)
        assert asked(plant, name).count("watch") == len(PARTS) + 1


def test_a_batch_that_is_another_one_after_a_crash_is_refused(plant):
    add(plant, 0, 1)
    send_all(plant)
    np.save(plant / "mill-watched/day0.npy", PARTS[0]["mill"] + 1.0)
    site = FileSite(gate(plant, "mill"), plant / "exchange")
    with pytest.raises(ValueError, match="packet 2 of run 'march' was about another record"):
        site.send("march", WatchRequest(3).to_packet(1))


def test_a_batch_before_those_that_were_sent_is_refused(plant):
    add(plant, 1)
    open_gate = gate(plant, "mill")
    site = FileSite(open_gate, plant / "exchange")
    site.send("march", REQUEST)
    site.send("march", WatchRequest(1).to_packet(1))
    add(plant, 0)
    with pytest.raises(ValueError, match="come in the order of their names"):
        site.send("march", WatchRequest(2).to_packet(1))


def test_batches_in_another_order_than_one_after_the_other_are_refused(plant):
    add(plant, 0, 1, 2)
    site = FileSite(gate(plant, "mill"), plant / "exchange")
    site.send("march", REQUEST)
    for number in (2, 0, -1, 1.0, True, "1"):
        with pytest.raises(ValueError, match=r"1 is the next one|expected a whole number, at least"):
            site.send("march", Packet("watch", 1, scalars={"dtype": "float64", "batch": number}))


def test_the_columns_of_a_batch_are_those_of_the_record(plant):
    np.save(plant / "mill-watched/day0.npy", PARTS[0]["mill"][:, 1:])
    site = FileSite(gate(plant, "mill"), plant / "exchange")
    site.send("march", REQUEST)
    with pytest.raises(ValueError, match=r"day0.npy has the columns"):
        site.send("march", WatchRequest(1).to_packet(1))


def test_part_of_a_batch_is_no_batch(plant):
    np.save(plant / "mill-watched/.day0.npy", PARTS[0]["mill"])
    shutil.copy(plant / "mill-watched/.day0.npy", plant / "mill-watched/day0.npy.part")
    site = FileSite(gate(plant, "mill"), plant / "exchange")
    site.send("march", REQUEST)
    assert site.send("march", WatchRequest(1).to_packet(1)) is None


class Batches:
    """Batches that are in memory."""

    def __init__(self, batches):
        self._batches = list(batches)

    def batch(self, number):
        """Batch of a number from 1, None where there is none."""
        return self._batches[number - 1] if number <= len(self._batches) else None


def workers(parts, starts=(0,)):
    return {
        name: UnitWorker(
            name,
            NOMINAL[name],
            None,
            (0,),
            None,
            KalmanClient(),
            monitored=Batches([Batch(part[name], starts) for part in parts]),
        )
        for name in UNITS
    }


def test_units_in_one_process_are_watched_in_batches_too(here):
    fitted = detector().fit_sites(InProcessTransport(workers(PARTS[:2])))
    seen = [len(changed) for changed in inspection.follow_sites(fitted)]
    assert len(seen) == 2
    assert inspection.watch_sites(fitted).equals(fitted.site_incidents_)  # nothing new
    check(inspection.watch_sites(detector().fit_sites(InProcessTransport(workers(PARTS)))), here)


def test_an_episode_within_a_batch_starts_afresh_and_goes_on_in_the_next(here):
    parts = [{n: Y[:250] for n, Y in WATCHED.items()}, {n: Y[250:] for n, Y in WATCHED.items()}]
    found = inspection.watch_sites(detector().fit_sites(InProcessTransport(workers(parts[:1], (0, 150)))))
    fitted = detector().fit(NOMINAL)
    both = fitted.incidents(parts[0], lengths=(150, 100))
    assert_array_equal(found["start"], both["start"])
    assert_allclose(found["probability"], both["probability"], rtol=1e-6)


def test_batches_with_different_rows_are_an_error():
    one = {"mill": workers(PARTS[1:2])["mill"], "kiln": workers(PARTS[:1])["kiln"]}
    with pytest.raises(ValueError, match="mill sent 20, kiln sent 150"):
        inspection.watch_sites(detector().fit_sites(InProcessTransport(one)))


def test_waiting_ends_when_it_was_said_to_end(plant):
    with Running(plant):
        started = time.monotonic()
        assert len(watched(plant, wait=0.5)) == 0
        assert time.monotonic() - started > 0.5


def test_a_site_without_a_record_to_be_watched_is_named(plant):
    path = plant / "kiln.toml"
    path.write_text(path.read_text().replace('watched = "kiln-watched"\n', "watch = true\n"))
    add(plant, 0)
    with Running(plant), pytest.raises(ClientError, match="'kiln' gave no answer: client-error PacketError"):
        watched(plant)


# -- inputs ---------------------------------------------------------------------------------------


def with_inputs():
    """Records in which an input of the mill moves both units, and that input."""
    rng = np.random.default_rng(4)
    u = np.repeat(rng.standard_normal(30), 25)[:700]
    pushed = {"mill": X["mill"] + 2.0 * u[:, None], "kiln": X["kiln"] + np.append(0.0, u[:-1])[:, None]}
    pushed["kiln"][460:590] += 4.0 * X["kiln"].std(axis=0)
    return pushed, u[:, None]


@pytest.mark.filterwarnings("ignore:Input .* is beyond")
@pytest.mark.parametrize("one_way", [False, True])
def test_batches_with_inputs_answer_at_sites_as_in_one_process(tmp_path, one_way):
    pushed, u = with_inputs()
    nominal = {name: Y[:300] for name, Y in pushed.items()}
    here = detector().fit(nominal, inputs={"mill": u[:300]})
    parts = [(i + 300, j + 300) for i, j in zip(CUTS[:-1], CUTS[1:], strict=True)]
    for i, j in parts:
        here.update(({name: Y[i:j] for name, Y in pushed.items()}, {"mill": u[i:j]}))
    in_process = known(here)
    last = f"x{pushed['mill'].shape[1]}"
    for name in UNITS:
        (tmp_path / f"{name}-watched").mkdir()
        own = np.hstack([pushed["mill"], u]) if name == "mill" else pushed[name]
        np.save(tmp_path / f"{name}.npy", own[:300])
        for k, (i, j) in enumerate(parts):
            np.save(tmp_path / f"{name}-watched/day{k}.npy", own[i:j])
        inputs = f'inputs = ["{last}"]\n' if name == "mill" else ""
        (tmp_path / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}.npy"\nwatched = "{name}-watched"\n{inputs}'
        )
    if one_way:
        send_all(tmp_path)
        found = watched(tmp_path, one_way=True)
    else:
        with Running(tmp_path):
            found = watched(tmp_path)
    pd.testing.assert_frame_equal(found, in_process, check_exact=True)
    assert "kiln" in list(found["root"])


def test_what_sites_make_of_inputs_for_effects_is_refused_where_they_are_watched(plant):
    path = plant / "mill.toml"
    path.write_text(path.read_text() + 'inputs = ["x0"]\nbasis = "spline"\n')
    with pytest.raises(ValueError, match="`watched`: a detector takes inputs as they are"):
        gate(plant, "mill")


# -- modes ----------------------------------------------------------------------------------------

WORDS = np.array(["summer", "winter", "cleaning"])


def with_modes():
    """Records in which the mill's recipe moves it, of whose rows 610 to 619 are in a mode that was not nominal."""
    mode = np.arange(700) // 25 % 2
    moved = X | {"mill": X["mill"] + 2.0 * mode[:, None]}
    moved["kiln"] = X["kiln"].copy()
    moved["kiln"][460:590] += 4.0 * X["kiln"].std(axis=0)
    mode[610:620] = 2
    return moved, mode


def tables(moved, mode, suffix):
    """The records of the units, the mill's with a column of its modes, as tables that a file with a suffix holds."""
    frames = {name: pd.DataFrame(Y, columns=[f"x{k}" for k in range(Y.shape[1])]) for name, Y in moved.items()}
    last = f"x{moved['mill'].shape[1]}"
    frames["mill"][last] = WORDS[mode] if suffix == ".csv" else mode.astype(float)
    return frames, last


@pytest.mark.parametrize("suffix", [".csv", ".npy"])
@pytest.mark.filterwarnings("ignore:.*taken as missing:UserWarning")
def test_modes_that_a_column_tells_at_a_site_are_those_of_one_process(tmp_path, suffix):
    frames, last = tables(*with_modes(), suffix)
    found, here = at_sites_and_here(tmp_path, frames, last, suffix)
    pd.testing.assert_frame_equal(found, here, check_exact=True)
    assert "kiln" in list(found["root"])
    assert not found["detected"].between(300, 340).any()  # in the mode that was not nominal, and when it ends


def at_sites_and_here(folder, frames, last, suffix, parts=((300, 450), (450, 520), (520, 700))):
    """Incidents in parts of records whose first rows are nominal, by one-way sites and in one process."""
    here = FederatedRCADetector(false_alarm_rate=0.01, baseline=Baseline(mode=f"mill__{last}"))
    here.fit({name: frame[:300] for name, frame in frames.items()})
    for i, j in parts:
        batch = {name: frame[i:j].reset_index(drop=True) for name, frame in frames.items()}
        here.update(batch)
    for name, frame in frames.items():
        (folder / f"{name}-watched").mkdir()
        for place, (i, j) in ((name, (0, 300)), *((f"{name}-watched/day{k}", rows) for k, rows in enumerate(parts))):
            if suffix == ".csv":
                frame[i:j].to_csv(folder / f"{place}.csv", index=False)
            else:
                np.save(folder / f"{place}.npy", frame[i:j].to_numpy())
        mode = f'mode = "{last}"\n' if name == "mill" else ""
        (folder / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}{suffix}"\nwatched = "{name}-watched"\nanyway = true\n{mode}'
        )
    send_all(folder)
    return watched(folder, one_way=True), known(here)


@pytest.mark.parametrize("suffix", [".csv", ".npy"])
@pytest.mark.filterwarnings("ignore:.*taken as missing:UserWarning")
def test_a_site_holds_the_mode_before_over_batches_that_do_not_tell_theirs(tmp_path, suffix):
    """From 325 to 430, in the second mode, a batch and a half lacks its modes, and the next begins in a new one."""
    moved, mode = with_modes()
    moved["mill"][325:430] += 2.0 * (1 - mode[325:430, None])
    mode[325:430] = 1
    mode[[400, 401, 402]] = 2
    frames, last = tables(moved, mode, suffix)
    frames["mill"].loc[330:399, last] = np.nan
    parts = (300, 330), (330, 360), (360, 400), (400, 430), (430, 520), (520, 700)
    found, here = at_sites_and_here(tmp_path, frames, last, suffix, parts)
    pd.testing.assert_frame_equal(found, here, check_exact=True)
    site = read_site_settings(tmp_path / "mill.toml")
    afresh = site.batches(site.record())  # after a start anew
    for number in (3, 4):
        assert_array_equal(afresh.batch(number).inputs, 1.0)


@pytest.mark.parametrize("words", [slice(0, 49), slice(695, 695)])
@pytest.mark.filterwarnings("ignore:mode 'clean' of .*taken as missing:UserWarning")
def test_modes_that_are_texts_in_one_file_and_numbers_in_another_are_the_same(tmp_path, words):
    """A word among the nominal modes or in the last batch; other files hold numbers alone."""
    moved, mode = with_modes()
    mode[610:620] = 0
    frames, last = tables(moved, mode, ".csv")
    frames["mill"][last] = np.array(["1", "2"], dtype=object)[mode]
    frames["mill"].loc[words, last] = "clean"
    found, here = at_sites_and_here(tmp_path, frames, last, ".csv")
    pd.testing.assert_frame_equal(found, here, check_exact=True)
    site = read_site_settings(tmp_path / "mill.toml")
    record = site.record()
    assert record.modes.labels == ((1, 2) if words.start else (1, 2, "clean"))
    last_batch = site.batches(record).batch(3)
    assert_array_equal(last_batch.inputs[:175, 0], mode[520:695])
    assert np.isfinite(last_batch.outputs[:175]).all()


def test_a_mode_of_a_site_that_is_new_is_named_and_its_rows_are_missing():
    modes = SiteModes.learn("recipe", ["summer", "winter "] * 30)
    assert modes.labels == ("summer", "winter")
    with pytest.warns(UserWarning, match="'cleaning' of 'recipe' was not in what was nominal"):
        codes = modes.codes(["winter", None, "cleaning", "summer"])
    outputs, inputs, last = modes.taken(np.ones((4, 2)), np.arange(4.0)[:, None], codes)
    assert last == 0
    assert_array_equal(outputs, [[1, 1], [1, 1], [np.nan, np.nan], [1, 1]])
    assert_array_equal(inputs, [[0, 1], [1, 1], [2, 1], [3, 0]])


def test_rows_of_a_site_whose_mode_nothing_tells_are_missing():
    modes, nothing = SiteModes("recipe", ("summer", "winter")), np.full(2, np.nan)
    codes = np.append(nothing, [1.0, np.nan, np.nan, 0.0])
    with pytest.warns(UserWarning, match="3 rows at the start of an episode lack 'recipe'"):
        outputs, inputs, last = modes.taken(np.ones((6, 1)), None, codes, (0, 4))
    assert_array_equal(outputs[:, 0], [np.nan, np.nan, 1, 1, np.nan, 1])
    assert_array_equal(inputs[:, 0], [0, 0, 1, 1, 0, 0])
    assert last == 0
    outputs, inputs, last = modes.taken(np.ones((2, 1)), None, nothing, before=lambda: 1.0)
    assert_array_equal(np.hstack([outputs, inputs]), 1.0)
    assert last == 1
    with pytest.warns(UserWarning, match="2 rows at the start"):
        assert modes.taken(np.ones((2, 1)), None, nothing, before=lambda: None)[2] is None


def test_a_nominal_record_of_a_site_that_begins_without_a_mode_is_refused(plant):
    own = np.hstack([NOMINAL["mill"], np.arange(300.0)[:, None] // 25 % 2])
    own[0, -1] = np.nan
    np.save(plant / "mill.npy", own)
    path = plant / "mill.toml"
    path.write_text(path.read_text() + f'mode = "x{own.shape[1] - 1}"\n')
    with pytest.raises(ValueError, match="missing values at the start of an episode, where there is no mode to hold"):
        gate(plant, "mill")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ('mode = "recipe"\n', "no column 'recipe'"),
        ('mode = "x0"\n', "it does not name a mode"),
        ('mode = "x0"\ninputs = ["x0"]\n', "both name 'x0'"),
        ('mode = "x0"\nbasis = "spline"\n', "leave out `basis`"),
    ],
)
def test_modes_of_a_site_that_cannot_be_are_refused(plant, settings, error):
    path = plant / "mill.toml"
    path.write_text(path.read_text() + settings)
    with pytest.raises(ValueError, match=error):
        gate(plant, "mill")
