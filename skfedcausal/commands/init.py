"""``python -m skfedcausal init``: a site's settings and its key from the answers to four questions."""

import json
from pathlib import Path

from ..client.site_record import SettingsError
from ..federation.atomic import file_name, write_whole
from ..federation.envelope import write_key
from ..sites.site import read_site_settings
from ._shared import OPTIONS, add_options, answer, parser

_HEAD = "# `plan` shows what would leave with these settings, `run` takes part. All other keys have defaults.\n[site]\n"


def main(arguments):
    """Write the settings and the key of a site."""
    reader = parser("init", "Write the settings and the key of a site; what is not given is asked.", settings=False)
    for section in ("questions", "init"):
        add_options(reader, section)
    return answer(reader, arguments, init, in_words)


def init(options):
    """Ask what was not given and write both files; neither is left where the settings cannot be used."""
    questions = {flag.lstrip("-"): known["help"] for flag, known in OPTIONS["questions"].items()}
    said = {name: getattr(options, name) or _asked(question) for name, question in questions.items()}
    stem = file_name(said["name"])
    settings, key = (options.to / f"{stem}.{kind}" for kind in ("toml", "key"))
    for path in (settings, key):
        if path.exists():
            raise SettingsError(f"{path} already exists. Give another name or another folder (--to).")
    for name in ("data", "folder"):  # read from where the settings are
        said[name] = str(Path(said[name]).absolute())
    said |= {"fix": options.fix and options.fix.split(","), "tz": options.tz, "key": key.name}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in said.items() if value]
    options.to.mkdir(parents=True, exist_ok=True)
    write_key(key)
    try:
        write_whole(settings, "".join([_HEAD, *lines]).encode())
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
        raise SettingsError(f"{question}? Nobody is here to ask: give it as an option (see --help).") from None


def in_words(made):
    """What was written and what comes next."""
    return (
        f"Wrote {made['settings']} and {made['key']}.\n"
        f"1. Take a copy of {made['key']} to the server over a channel that you trust.\n"
        f"2. See what would leave: skfedcausal plan {made['settings']}\n"
        f"3. Take part: skfedcausal run {made['settings']}"
    )
