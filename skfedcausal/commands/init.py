"""``python -m skfedcausal init``: a site's settings and its key from the answers to four questions."""

import json
from pathlib import Path

from ..client.site_record import SettingsError
from ..federation.atomic import file_name, write_whole
from ..federation.envelope import write_key
from ..sites.site import read_site_settings
from ._shared import answer, parser

_QUESTIONS = {
    "name": "Name of the unit, as the server has it",
    "data": "File with its record (CSV, Parquet or .npy)",
    "folder": "Folder that the server sees too",
    "run": "Name of the run that it may answer",
}
_SETTINGS = """# `plan` shows what would leave with these settings, `run` takes part. Every other key has a default.
[site]
name = {name}
data = {data}
folder = {folder}
run = {run}
key = {key}
"""


def main(arguments):
    """Write the settings and the key of a site."""
    reader = parser("init", "Write the settings and the key of a site; what is not given is asked.", settings=False)
    for name, question in _QUESTIONS.items():
        reader.add_argument(f"--{name}", help=question)
    reader.add_argument("--to", type=Path, default=Path(), help="folder of the settings and the key; by default here")
    return answer(reader, arguments, init, in_words)


def init(options):
    """Ask what was not given and write both files; neither is left where the settings cannot be used."""
    told = {name: getattr(options, name) or _asked(question) for name, question in _QUESTIONS.items()}
    stem = file_name(told["name"])
    settings, key = (options.to / f"{stem}.{kind}" for kind in ("toml", "key"))
    for path in (settings, key):
        if path.exists():
            raise SettingsError(f"{path} is there already. Give another name or another folder (--to).")
    for name in ("data", "folder"):  # read from where the settings are
        told[name] = str(Path(told[name]).absolute())
    words = {name: json.dumps(value, ensure_ascii=False) for name, value in told.items()}
    options.to.mkdir(parents=True, exist_ok=True)
    write_key(key)
    try:
        write_whole(settings, _SETTINGS.format(**words, key=json.dumps(key.name)).encode())
        read_site_settings(settings).record()
    except Exception:
        settings.unlink(missing_ok=True)
        key.unlink()
        raise
    return {"settings": str(settings), "key": str(key)}


def _asked(question):
    try:
        return input(f"{question}: ").strip()
    except EOFError:
        raise SettingsError(f"{question}? Nobody answers here: give it as an option (--help lists them).") from None


def in_words(made):
    """What was written and what comes next."""
    return (
        f"Wrote {made['settings']} and {made['key']}.\n"
        f"1. Bring a copy of {made['key']} to the server by a way that you trust.\n"
        f"2. See what would leave: skfedcausal plan {made['settings']}\n"
        f"3. Take part: skfedcausal run {made['settings']}"
    )
