"""Those who are told of incidents: each a function of an event, and the queue on disk that it is told from."""

import json
import os
import smtplib
import socket
import threading
import urllib.error
import urllib.request
from email.message import EmailMessage
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote, urlsplit

from ..._version import __version__
from ...federation.atomic import make_folder, write_whole
from ...optional import import_optional
from ...streams.sources import engine_of, first_line
from .loop import as_json, say
from .tuning import TUNING

_AGAIN, _LONGEST = 1.0, 60.0  # seconds until a call is tried again: twice as long each time, up to the second
_REFUSES = (400, 413, 415, 422)  # answers of HTTP that are about the event, not about who sends it
_TOLD = "told"  # event that was told last
_SEVERITY = {"alert": 1, "notice": 5}


def to_print(event):
    """Print an event as a line of JSON."""
    print(as_json(event), flush=True)


def to_file(path):
    """A file that gets a line of JSON for each event, and none twice where a watch was killed before it took note."""

    def tell(event):
        line = as_json(event).encode() + b"\n"
        make_folder(path.parent, shared=True)
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            end = os.lseek(file, 0, os.SEEK_END)
            last = os.pread(file, len(line), max(end - len(line), 0))
            torn = end and not last.endswith(b"\n")  # of a watch that was killed
            if last != line:
                os.write(file, b"\n" + line if torn else line)
        finally:
            os.close(file)

    return tell


def to_webhook(url):
    """An address that gets each event as JSON by POST; the id of the event is its Idempotency-Key."""

    def tell(event):
        head = {"Content-Type": "application/json", "Idempotency-Key": event["id"]}
        request = urllib.request.Request(url, as_json(event).encode(), head)
        try:
            urllib.request.urlopen(request, timeout=TUNING.sinks_patience).close()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _REFUSES:
                raise Refused(str(error)) from None
            raise

    return tell


class Refused(ValueError):
    """One who is there does not take this event: others may be taken."""


def answers(url):
    """Whether somebody is at an address of the web, in words; empty if so."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="OPTIONS"), timeout=TUNING.sinks_patience).close()
    except urllib.error.HTTPError as error:
        error.close()  # somebody answered
    except (OSError, HTTPException) as error:  # the latter of one who does not speak HTTP
        return str(getattr(error, "reason", error)) or type(error).__name__
    return ""


def say_away(name, why):
    """Say that one who is to be told of incidents is away."""
    say(f"The {name} does not answer now ({why}): incidents wait for it on disk.")


def listens(host, port):
    """Whether somebody listens at a host and port, in words; empty if so."""
    try:
        socket.create_connection((host, port), timeout=TUNING.sinks_patience).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def to_mail(settings, password):
    """Mail for each event."""
    host, port = settings.door

    def tell(event):
        message = EmailMessage()
        message["From"], message["To"] = settings.sender, ", ".join(settings.to)
        message["Subject"] = in_words(event)
        message.set_content(json.dumps(event, indent=2, allow_nan=False))
        with smtplib.SMTP(host, port, timeout=TUNING.sinks_patience) as server:
            if settings.tls:
                server.starttls()
            if settings.user is not None:
                server.login(settings.user, password or "")
            server.send_message(message)

    return tell


def to_syslog(settings, _=None):
    """A collector that gets each event in the Common Event Format, in a message of RFC 5424."""
    kind = socket.SOCK_STREAM if settings.tcp else socket.SOCK_DGRAM

    def tell(event):
        level = _SEVERITY["alert" if event["end"] is None else "notice"]
        head = f"<{TUNING.sinks_facility + level}>1 {event['detected']} {socket.gethostname()} skfedcausal - - - "
        with socket.socket(socket.AF_INET, kind) as wire:
            wire.settimeout(TUNING.sinks_patience)
            wire.connect(settings.door)
            wire.sendall((head + in_cef(event) + ("\n" if settings.tcp else "")).encode())

    return tell


def in_cef(event):
    """An event in the Common Event Format."""
    head = ["CEF:0", "skfedcausal", "watch", __version__, _head(event["kind"]), _head(in_words(event)), "8"]
    more = {"externalId": event["id"], "start": event["start"], "end": event["end"], "cs1Label": "root"}
    more |= {"cs1": event["root"], "cfp1Label": "probability", "cfp1": event["probability"]}
    return "|".join([*head, " ".join(f"{key}={_value(value)}" for key, value in more.items() if value is not None)])


def _head(text):
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _value(text):
    return str(text).replace("\\", "\\\\").replace("=", "\\=").replace("\n", "\\n")


def to_table(settings, password):
    """A table of a database with a row for each event."""
    sql = import_optional("sqlalchemy", "sql", "A table of incidents")
    engine = engine_of(settings.url, settings.user, password)
    words = ("incident", "start", "detected", "end", "root", "kind", "document")
    columns = [sql.Column(name, sql.Text) for name in words]
    keyed = sql.Column("id", sql.String(80), primary_key=True), sql.Column("probability", sql.Float)
    table = sql.Table(settings.name, sql.MetaData(), *keyed, *columns)

    def run(*statements):
        try:
            with engine.begin() as connection:
                table.create(connection, checkfirst=True)
                for statement in statements:
                    connection.execute(statement)
        except sql.exc.SQLAlchemyError as error:
            raise OSError(first_line(error)) from None

    def tell(event):
        row = {name: str(event[name]) for name in words if event.get(name) is not None}
        row |= {"id": event["id"], "probability": event["probability"], "document": as_json(event)}
        run(table.delete().where(table.c.id == event["id"]), table.insert().values(row))

    try:
        run()
    except OSError as error:
        say_away("table", error)

    return tell


def to_broker(settings, password):
    """A topic of a broker that gets each event as JSON."""
    publish = import_optional("paho.mqtt.publish", "mqtt", "To publish incidents")
    parts, (host, port) = urlsplit(settings.url), settings.door
    secure = parts.scheme == "mqtts"
    user = settings.user or parts.username
    auth = None if user is None else {"username": user, "password": password}
    tls = {"ca_certs": None if settings.ca is None else str(settings.ca)} if secure else None
    about = {"hostname": host, "port": port, "auth": auth, "tls": tls}

    def tell(event):
        publish.single(parts.path.lstrip("/"), as_json(event), qos=1, **about)

    return tell


def in_words(event):
    """An event as the title of a message."""
    where = f"began in {event['root']}" if event["root"] != "undecided" else "origin not determined yet"
    ended = "" if event["end"] is None else f", ended {event['end']}"
    return f"Incident at {event['start']}: {where}{ended}"


class Outbox:
    """Events on their way to one who may be away: kept as files, in order, and told by a thread until they are taken.

    Parameters
    ----------
    name : str
        Who is told, in words.
    tell : callable
        Tells an event; whatever it raises, it is asked again later.
    folder : Path
        Where events wait.
    """

    def __init__(self, name, tell, folder):
        self.name, self._tell, self._folder = name, tell, Path(folder)
        self._unsaved: dict[str, dict] = {}  # events for which there was no room on disk
        self._due, self._closing = threading.Event(), threading.Event()
        self._sent = 0
        self._failed = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._told_last = _id_of(self._folder / _TOLD)  # of a watch that was killed before it took note
        self._number = max([0, *(int(path.name.partition("-")[0]) for path in self._waiting())])

    def start(self):
        """Begin to tell."""
        self._thread.start()
        self._due.set()

    def __call__(self, event):
        """Put an event into the queue."""
        if event["id"] == self._told_last or any(path.name.endswith(_file_end(event)) for path in self._waiting()):
            return
        self._number += 1
        try:
            make_folder(self._folder)
            write_whole(self._folder / f"{self._number:09d}{_file_end(event)}", as_json(event).encode())
        except OSError:
            self._unsaved[event["id"]] = event
        self._due.set()

    @property
    def state(self):
        """How many were told, how many wait, and why."""
        return {"told": self._sent, "waiting": len(self._waiting()) + len(self._unsaved), "problem": self._failed}

    def close(self, patience):
        """Tell what waits, for some seconds at most."""
        self._closing.set()
        self._due.set()
        self._thread.join(patience)

    def _waiting(self):
        return sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []

    def _run(self):
        wait, pause = _LONGEST, _AGAIN
        while True:
            self._due.wait(wait)
            self._due.clear()
            wait, pause = (_LONGEST, _AGAIN) if self._all_told() else (pause, min(2 * pause, _LONGEST))
            if self._closing.is_set():
                return

    def _all_told(self):
        """Tell what waits; whether all was taken."""
        failed = ""
        for waits in [*self._waiting(), *self._unsaved]:
            try:
                if isinstance(waits, Path):
                    self._tell(json.loads(waits.read_bytes()))
                    os.replace(waits, self._folder / _TOLD)
                else:
                    self._tell(self._unsaved[waits])
                    del self._unsaved[waits]
                self._sent += 1
            except Exception as error:  # whoever is told must not end the watch; it is said, and tried again
                if not self._failed:
                    say(f"the {self.name} did not take an incident ({error}); it will be sent again later.")
                self._failed = failed = f"{type(error).__name__}: {error}"
                if not isinstance(error, ValueError):  # which is about this event only
                    break
        self._failed = failed
        return not failed


def _id_of(path):
    """Id of an event that was told, None where there is none."""
    try:
        return json.loads(path.read_bytes())["id"]
    except (OSError, ValueError):
        return None


def _file_end(event):
    return f"-{quote(event['id'], safe='')}.json"
