"""A watch that runs for a year: nothing from outside ends it, it tells first, and it remembers."""

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from shutil import which

import numpy as np
import pandas as pd
import pytest

from benchmarks.chaos import chaos
from skfedcausal import FederatedRCADetector
from skfedcausal.commands.watch import main as watch_command
from skfedcausal.commands.watching.loop import Journal, StateError, as_json
from skfedcausal.commands.watching.settings import MailSettings, SyslogSettings, TableSettings, read_settings
from skfedcausal.commands.watching.sinks import (
    Outbox,
    answers,
    in_cef,
    to_file,
    to_mail,
    to_syslog,
    to_table,
    to_webhook,
)
from skfedcausal.sites.settings import SettingsError
from skfedcausal.streams import StreamWarning
from skfedcausal.streams.cells import as_frame, as_record

from .watching import FAULT, plant, until, watch_of

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore")]

EVENT = {
    "id": "2026-01-02T03:30:00Z/1", "incident": "2026-01-02T03:30:00Z", "start": "2026-01-02T03:30:00Z",
    "detected": "2026-01-02T03:31:00Z", "end": None, "root": "mill|a=b", "probability": 0.9, "kind": "fault",
    "repeats": [],
}  # fmt: skip


def strict(text):
    """JSON as RFC 8259 has it: NaN and Infinity are none."""

    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def fed(watch, rows, size=1):
    for k in range(0, len(rows), size):
        watch.take(rows[k : k + size])
        watch.tick()


# --- state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7])
def test_a_watch_that_is_begun_again_tells_what_one_that_went_on_tells(tmp_path, size):
    """At any row, with the rows of its journal alone, or after the state was kept."""
    live, still, told = plant()[2], [], []
    fed(watch_of(tmp_path / "still", [still.append]), live, size)
    rng = np.random.default_rng(size)
    ends = sorted(rng.choice(np.arange(size, len(live), size), 12, replace=False).tolist())
    for k, (begin, end) in enumerate(zip([0, *ends], [*ends, len(live)], strict=True)):
        watch = watch_of(tmp_path / "killed", [told.append])
        fed(watch, live[begin:end], size)
        if k % 3 == 1:
            watch.keep()
    assert len(still) > 2
    assert told == still
    assert told[0]["root"] == "unit0"
    assert watch.counts["rows"] == len(live)


def test_a_state_that_is_kept_while_a_row_is_held_goes_on_with_that_row(tmp_path):
    """The clock of the source is set back, and the state kept after the first row of the new time."""
    live, still, told = plant()[2], [], []
    live = pd.concat([live[:100], live[100:].set_axis(live.index[100:] - pd.Timedelta("1h"))])
    fed(watch_of(tmp_path / "still", [still.append]), live)
    watch = watch_of(tmp_path / "killed", [told.append])
    fed(watch, live[:101])
    watch.keep()
    fed(watch, live[101:])
    watch = watch_of(tmp_path / "killed", [told.append])
    assert told == still
    assert watch.counts["rows"] == len(live)


def test_what_was_told_is_not_told_again_and_what_was_not_is(tmp_path):
    """A watch that ends between the alarm and the note of it tells once more, with the same id."""
    live, told = plant()[2], []
    watch = watch_of(tmp_path, [told.append])
    fed(watch, live[: FAULT + 5])
    records = (tmp_path / "rows-000000001.jsonl").read_text().splitlines()
    assert sum("told" in line for line in records) == len(told) > 0
    watch_of(tmp_path, [told.append])
    assert len({event["id"] for event in told}) == len(told)
    kept = [line for line in records if '"told"' not in line]
    last = max(tmp_path.glob("rows-*.jsonl"), default=tmp_path / "rows-000000002.jsonl")
    assert kept
    assert not last.exists() or last.stat().st_size == 0


def test_an_acknowledged_incident_is_acknowledged_after_a_restart(tmp_path):
    live = plant()[2]
    watch = watch_of(tmp_path, [])
    fed(watch, live[: FAULT + 20])
    name = next(iter(watch.incidents.known))
    watch.asked.put((name, "Ada", "valve", "2026-01-02T00:00:00Z"))
    watch.tick()
    assert watch_of(tmp_path, []).incidents.known[name]["seen"]["comment"] == "valve"


def test_a_record_that_was_not_written_to_its_end_did_not_happen(tmp_path):
    journal = Journal(tmp_path)
    journal.keep({}, FederatedRCADetector())
    journal.append({"row": 1})
    journal.close()
    with (tmp_path / "rows-000000001.jsonl").open("a") as file:
        file.write('{"row": ')
    journal.append({"row": 2})
    assert Journal(tmp_path).read()[2] == [{"row": 1}, {"row": 2}]


def test_a_state_of_another_format_is_named(tmp_path):
    (tmp_path / "state").write_bytes(b'{"format": 99}\n')
    with pytest.raises(StateError, match="format 99, and this version reads 2"):
        Journal(tmp_path).read()


def test_batches_come_back_as_they_were():
    frame = pd.DataFrame(
        {"a__x": [1.5, np.nan], "recipe": ["A", None]}, index=pd.to_datetime(["2026-01-01", "2026-01-02"])
    )
    for one in (frame, frame.tz_localize("UTC"), frame.reset_index(drop=True)):
        pd.testing.assert_frame_equal(
            as_frame(json.loads(json.dumps(as_record(one))), list(one)), one, check_index_type=False
        )


def test_rows_that_cannot_be_judged_are_left_out_and_the_rest_is_told(tmp_path, monkeypatch):
    live, told = plant()[2], []
    watch = watch_of(tmp_path, [told.append])
    judge = type(watch.detector).update

    def broken(self, batch, **more):
        if (batch.iloc[:, 0] == live.iloc[50, 0]).any():
            judge(self, batch, **more)
            raise RuntimeError("no idea")
        return judge(self, batch, **more)

    monkeypatch.setattr(type(watch.detector), "update", broken)
    with pytest.warns(UserWarning, match=r"could not be judged \(RuntimeError: no idea\)"):
        fed(watch, live)
    assert watch.counts["rows"] == len(live) - 1
    assert told[0]["root"] == "unit0"
    assert watch_of(tmp_path, [told.append]).counts["rows"] == len(live) - 1


@pytest.mark.skipif(os.name != "posix", reason="signals of posix")
@pytest.mark.parametrize("source", ["csv", "mqtt"])
def test_random_events_do_not_keep_a_fault_from_being_told_once(source):
    """The long run, with 60 faults, is ``python -m benchmarks.chaos``."""
    if source == "mqtt" and which("mosquitto") is None:
        pytest.skip("there is no program mosquitto")
    found = chaos(5, source, n_rows=4000, n_faults=2, n_events=150)
    assert found["faults told undisturbed"] == found["told well"] == 2
    assert (
        found["exits"]
        == found["told, twice"][1]
        == found["heard by the alarm system, again by the same key, missed"][2]
        == 0
    )
    assert found["kills"] > 5


# --- the command ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    _, known, live = plant()
    known.nominal.to_csv(tmp_path / "nominal.csv", index_label="time")
    live.to_csv(tmp_path / "live.csv", index_label="time")
    return tmp_path


def settings(folder, more="", source="csv:live.csv"):
    path = folder / "watch.toml"
    path.write_text(f'[watch]\nnominal = "nominal.csv"\nsource = "{source}"\nlog = "told.jsonl"\n{more}\n')
    return path


def log(folder):
    path = folder / "told.jsonl"
    return [strict(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("source", ["csv", "sql"])
def test_killed_at_any_moment_it_tells_what_it_would_have_told(folder, tmp_path_factory, source):
    """Kill -9 while rows are written; the long run, 20 kills, is ``python -m benchmarks.kills``."""
    from benchmarks.kills import killed

    if source == "sql":
        pytest.importorskip("sqlalchemy")
    found = killed(folder, tmp_path_factory.mktemp("still"), plant()[2], kills=2, seed=1, source=source)
    assert found["told"] == found["undisturbed"]
    assert found["ends"] == found["undisturbed ends"]
    assert found["twice"] == 0


def test_what_is_told_is_strict_json_with_times_that_have_a_zone(folder, capsys):
    plant()[2][: FAULT + 20].to_csv(folder / "live.csv", index_label="time")
    assert watch_command([str(settings(folder, "wait = 0.1"))]) == 3
    events = [strict(line) for line in capsys.readouterr().out.splitlines()]
    assert events == log(folder)
    assert events[0]["end"] is None
    assert all(pd.Timestamp(event["detected"]).tz is not None for event in events)
    assert watch_command([str(folder / "watch.toml")]) == 3
    assert not capsys.readouterr().out  # nothing is told twice


def test_a_watch_that_goes_on_ends_where_a_package_is_gone(folder, capsys, monkeypatch):
    command = [str(settings(folder, "wait = 0.1"))]
    assert watch_command(command) == 3

    def opened(*_):
        raise ModuleNotFoundError("a table of a database needs sqlalchemy")

    monkeypatch.setattr("skfedcausal.commands.watch.open_source", opened)
    assert watch_command(command) == 1
    assert "needs sqlalchemy" in capsys.readouterr().err


def test_a_disk_without_room_keeps_nobody_from_being_told(folder):
    command = [sys.executable, "-m", "skfedcausal", "watch", str(settings(folder, "wait = 0.1"))]
    done = subprocess.run(["bash", "-c", 'ulimit -f 2; exec "$@"', "x", *command], capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    event = strict(done.stdout.splitlines()[0])
    assert event["root"] == "unit0"
    assert event["problem"].startswith("the state cannot be kept")


def test_the_source_in_the_zone_and_the_names_of_the_plant(folder, capsys):
    """PI names, local times, a tag to leave out: as the other commands read them."""
    nominal, live = (pd.read_csv(folder / name, index_col=0, parse_dates=True) for name in ("nominal.csv", "live.csv"))
    for name, frame in (("nominal.csv", nominal), ("live.csv", live)):
        frame.columns = [f"SITE1.{column.replace('__', '.')}" for column in frame.columns]
        frame["SITE1.unit0.counter"] = np.arange(len(frame))
        frame.to_csv(folder / name, index_label="time", sep=";", decimal=",")
    more = 'wait = 0.1\nunits = "SITE1.{unit}.{tag}"\ntz = "Europe/Berlin"\ndrop = ["*counter"]\nfix = "all"'
    assert watch_command([str(settings(folder, more))]) == 3
    event = strict(capsys.readouterr().out.splitlines()[0])
    assert event["root"] == "unit0"
    assert event["detected"].endswith("+01:00")
    late = pd.Timestamp(event["detected"]).tz_localize(None) - live.index[FAULT]
    assert pd.Timedelta(0) <= late <= pd.Timedelta("2min")


def test_settings_are_checked_whole_with_line_and_key(folder):
    (folder / "key.txt").write_text("short")
    path = folder / "watch.toml"
    path.write_text(
        '[watch]\nnominal = "none.csv"\nsource = "mqtt://user:hush@broker/plant"\nwebhook = "alarms"\ntz = "Mars"\n\n'
        '[source]\nversion = 3\n\n[live]\nport = "high"\ncolour = 1\n\n[mail]\nserver = "smtp:25"\n\n[mial]\n'
    )
    with pytest.raises(SettingsError) as caught:
        read_settings(path)
    text = str(caught.value)
    for words in ("nominal (line 2)", "source (line 3)", "webhook (line 4)", "tz (line 5)", "version (line 8)",
                  "`port` is 'high', of the wrong kind (line 11)", "unknown keys 'colour' (line 12)",
                  "[mail]: give 'to', 'sender' too", "mial"):  # fmt: skip
        assert words in text
    assert "hush" not in text


def test_addresses_of_those_who_are_told_are_checked_with_line_and_key(folder):
    more = (
        '[mail]\nserver = "smtp.local:high"\nto = ["a@plant"]\nsender = "b@plant"\n[syslog]\nserver = ""\n'
        '[publish]\nurl = "mqtts://watch:hush@broker/alarms"\n'
    )
    with pytest.raises(SettingsError) as caught:
        read_settings(settings(folder, more))
    text = str(caught.value)
    for words in ("server (line 6) = 'smtp.local:high' has no host and port", "server (line 10) = ''", "url (line 12)"):
        assert words in text
    assert "hush" not in text
    with pytest.raises(SettingsError, match=r"false_alarms \(line 5\) = .*give a number per time step"):
        read_settings(settings(folder, 'false_alarms = "one per week"'))
    with pytest.raises(SettingsError, match=r"url \(line 7\) = is no topic to publish to"):
        read_settings(settings(folder, '\n[publish]\nurl = "mqtt://broker"\n'))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('webhook = "http://host:high/"', "webhook (line 5) = 'http://host:high/' is not an address (Port"),
        ('webhook = "http://["', "webhook (line 5) = 'http://['"),
        ('inputs = ["mill__x", 5]', "inputs (line 5) = 5 is no line of text"),
        ('[mail]\nserver = "host"\nto = []\nsender = "a"', "to (line 7) = None is no line of text"),
        ('[publish]\nurl = "mqtt://host:70000/t"', "url (line 6) = 'mqtt://host:70000/t' is not an address (Port"),
        ("[live]\nport = 70000", "port (line 6) = 70000; give a number to 65535"),
        ('[live]\ntoken_file = "a\\u0000b"', "token_file: "),
        ('[mail]\nserver = "smtp://me:hush/4711@host"\nto = ["a"]\nsender = "a"', "smtp:...@host"),
    ],
)
def test_settings_that_could_fail_only_later_are_named_before(folder, more, words):
    with pytest.raises(SettingsError) as caught:
        read_settings(settings(folder, more))
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("said", ["stderr", "stdout", "both"])
def test_a_full_disk_that_takes_no_note_either_ends_nothing(folder, said):
    with open("/dev/full", "w") as full:
        quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
        quiet |= {name: full for name in quiet if said in (name, "both")}
        path = settings(folder, 'wait = 0.1\nwebhook = "http://127.0.0.1:1/"')
        subprocess.run([sys.executable, "-m", "skfedcausal", "watch", str(path)], **quiet, timeout=100)
    assert log(folder)


def test_an_event_that_is_refused_does_not_keep_others_from_being_told(tmp_path):
    heard = []

    class Hears(BaseHTTPRequestHandler):
        def do_POST(self):
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            heard.append(event["id"])
            self.send_response(400 if event["id"] == "a/1" else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Hears) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        outbox = Outbox("webhook", to_webhook(f"http://127.0.0.1:{server.server_port}/"), tmp_path)
        for name in ("a/1", "b/1"):
            outbox({**EVENT, "id": name})
        outbox.start()
        assert until(lambda: "b/1" in heard)
        assert until(lambda: outbox.state["waiting"] == 1)
        outbox.close(5.0)
        server.shutdown()


def test_one_who_does_not_speak_http_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet():
            wire, _ = listener.accept()
            with wire:
                wire.recv(100)
                wire.sendall(b"220 hello\r\n")

        threading.Thread(target=greet, daemon=True).start()
        assert answers(f"http://127.0.0.1:{listener.getsockname()[1]}/")


def test_who_is_away_is_named_before_the_first_row(folder, capsys):
    pytest.importorskip("psycopg")
    plant()[2][:20].to_csv(folder / "live.csv", index_label="time")
    more = (
        'wait = 0.1\nwebhook = "http://127.0.0.1:1/"\n[publish]\nurl = "mqtt://127.0.0.1:1/alarms"\n'
        '[table]\nurl = "postgresql+psycopg://127.0.0.1:1/plant"\n[syslog]\nserver = "127.0.0.1:1"\ntcp = true\n'
    )
    assert watch_command([str(settings(folder, more))]) == 0
    said = capsys.readouterr().err
    for name in ("webhook", "publish", "table", "syslog"):
        assert f"The {name} does not answer now (" in said


def test_a_table_at_no_address_of_a_database_is_refused(folder, capsys):
    pytest.importorskip("sqlalchemy")
    assert watch_command([str(settings(folder, '[table]\nurl = "postgres://host/plant"'))]) == 1
    assert "no address of a database" in capsys.readouterr().err


def test_the_age_of_the_last_row_does_not_follow_the_clock_of_the_machine(tmp_path, monkeypatch):
    watch, real = watch_of(tmp_path, []), time.time
    watch.take(plant()[2][:5])
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    time.sleep(0.05)
    assert 0.05 <= watch.age < 60
    watch.keep()
    assert watch.age <= watch_of(tmp_path, []).age < 60


def test_rows_of_another_plant_are_named_and_nothing_is_said_of_the_plant(tmp_path):
    watch, live = watch_of(tmp_path, []), plant()[2]
    for begin in (0, 10):
        with pytest.warns(StreamWarning, match="none of the columns of the plant, 'unit0__x0'.*theirs are 'unit0-x0'"):
            watch.take(live[begin : begin + 10].rename(columns=lambda name: name.replace("__", "-")))
    assert watch.is_quiet
    assert watch.counts == {"rows": 0, "batches": 2, "refused": 20}
    watch.take(live[20:30])
    assert not watch.is_quiet


def test_a_broker_knows_each_watch_by_a_name_of_its_own(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    assert Journal(one).name == Journal(one).name != Journal(other).name
    (tmp_path / "file").touch()
    assert Journal(tmp_path / "file").name.startswith("skfedcausal-")  # where nothing can be kept


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_state_when_it_is_asked_to(folder, number):
    command = [sys.executable, "-m", "skfedcausal", "watch", str(settings(folder))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert until(lambda: log(folder), 60)
    process.send_signal(number)
    assert process.wait(30) == 3
    assert "Traceback" not in process.stderr.read()
    assert (folder / "watch.state" / "state").exists()


# --- those who are told -----------------------------------------------------------------------------


def test_events_wait_on_disk_for_who_is_away(tmp_path):
    heard, here = [], []

    def tell(event):
        if not here:
            raise OSError("away")
        heard.append(event["id"])

    first = Outbox("webhook", tell, tmp_path)
    first.start()
    first(EVENT)
    first({**EVENT, "id": "b/1"})
    first.close(5)
    assert first.state["waiting"] == 2
    here.append(True)
    again = Outbox("webhook", tell, tmp_path)
    again.start()
    assert until(lambda: heard == [EVENT["id"], "b/1"])
    again.close(5)
    assert not list(tmp_path.glob("*.json"))


def test_what_a_killed_watch_told_without_taking_note_is_not_told_again(tmp_path):
    """It was written to the file, or heard by who was told, and the watch that goes on tells it once more."""
    heard, path = [], tmp_path / "told.jsonl"
    for event in (EVENT, EVENT, {**EVENT, "id": "b/1"}):
        to_file(path)(event)
        outbox = Outbox("webhook", heard.append, tmp_path / "queue")
        outbox.start()
        outbox(event)
        outbox.close(5)
    assert [strict(line)["id"] for line in path.read_text().splitlines()] == [EVENT["id"], "b/1"]
    assert [event["id"] for event in heard] == [EVENT["id"], "b/1"]


def test_an_event_in_the_common_event_format():
    text = in_cef(EVENT)
    assert text.startswith("CEF:0|skfedcausal|watch|")
    assert "|Incident at 2026-01-02T03:30:00Z: began in mill\\|a=b|" in text
    assert "cs1=mill|a\\=b" in text
    assert "end=" not in text


@pytest.mark.parametrize("tcp", [False, True])
def test_a_collector_of_syslog(tcp):
    heard = []

    class Collector(socketserver.BaseRequestHandler):
        def handle(self):
            heard.append(self.request.recv(4096) if tcp else self.request[0])

    kind = socketserver.TCPServer if tcp else socketserver.UDPServer
    with kind(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        to_syslog(SyslogSettings(f"127.0.0.1:{server.server_address[1]}", tcp))(EVENT)
        thread.join(5)
    assert heard[0].startswith(b"<129>1 2026-01-02T03:31:00Z ")


def test_a_mail():
    said = []

    def serve(listener):
        wire, _ = listener.accept()
        with wire, wire.makefile("rb") as lines:
            wire.sendall(b"220 here\r\n")
            body = False
            for line in lines:
                said.append(line.decode())
                if body and line == b".\r\n":
                    body = False
                elif body:
                    continue
                elif line.upper().startswith(b"DATA"):
                    body = True
                    wire.sendall(b"354 go on\r\n")
                    continue
                wire.sendall(b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 ok\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        about = MailSettings(
            f"127.0.0.1:{listener.getsockname()[1]}", ("a@plant.example",), "watch@plant.example", tls=False
        )
        to_mail(about, None)(EVENT)
        thread.join(5)
    text = "".join(said)
    assert "Subject: Incident at 2026-01-02T03:30:00Z: began in mill|a=b" in text
    assert "To: a@plant.example" in text


def test_a_table_of_incidents(tmp_path):
    sql = pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path / 'told.db'}"
    tell = to_table(TableSettings(url), None)
    for event in (EVENT, EVENT, {**EVENT, "id": "b/1", "end": "2026-01-03T00:00:00Z"}):
        tell(event)
    with sql.create_engine(url).connect() as connection:
        rows = connection.execute(sql.text('SELECT id, "end", document FROM incidents ORDER BY id')).all()
    assert [row[1] for row in rows] == [None, "2026-01-03T00:00:00Z"]
    assert strict(rows[0][2]) == EVENT


def test_a_file_of_lines_goes_on_after_a_line_that_was_torn(tmp_path):
    path = tmp_path / "told.jsonl"
    path.write_text('{"id": "a')
    to_file(path)(EVENT)
    assert strict(path.read_text().splitlines()[1]) == EVENT
    with pytest.raises(ValueError, match="Out of range"):
        as_json({"probability": float("nan")})


def test_a_source_that_fails_is_opened_again(folder, monkeypatch):
    """Whatever is raised, once rows have come; before that it is an error of the settings."""
    from skfedcausal.commands import watch as command

    real, failed = command.open_source, []

    def failing(*about):
        source = real(*about)

        def rows():
            for number, one in enumerate(source.rows):
                if number == 2 and len(failed) < 2:
                    failed.append(number)
                    raise LookupError("cable cut")
                yield one

        return source._replace(rows=rows())

    monkeypatch.setattr(command, "open_source", failing)
    monkeypatch.setattr(command, "_AGAIN", 0.0)
    assert watch_command([str(settings(folder, "wait = 0.1"))]) == 3
    assert len(failed) == 2
    assert log(folder)[0]["root"] == "unit0"
