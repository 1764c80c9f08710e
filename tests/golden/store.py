"""Stored answers: one small file for each group of questions."""

import gzip
import json
import subprocess
from pathlib import Path

FORMAT = 1  # of the files; another one is made anew
ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "stored"
HOW_TO_MAKE = "Make it by `python -m tests.golden --write`, on a commit whose answers are known to be right."


class GoldenFileError(RuntimeError):
    """Stored answers that cannot be read, or may not be written; the message says what to do."""


def path_of(group, folder=FOLDER):
    """File of a group."""
    return Path(folder) / f"{group}.json.gz"


def read(group, folder=FOLDER):
    """Stored answers of a group by their names."""
    path = path_of(group, folder)
    if not path.exists():
        raise GoldenFileError(f"There are no stored answers {path}. {HOW_TO_MAKE}")
    try:
        stored = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError) as error:
        raise GoldenFileError(f"{path} cannot be read ({error}). {HOW_TO_MAKE}") from error
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        came = stored.get("format") if isinstance(stored, dict) else None
        raise GoldenFileError(f"{path} has format {came!r}, and this golden run reads {FORMAT}. {HOW_TO_MAKE}")
    return stored["answers"]


def write(group, answers, folder=FOLDER):
    """Store the answers of a group; the same answers give the same bytes."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, "answers": answers}, separators=(",", ":"), ensure_ascii=False)
    path_of(group, folder).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def check_committed(root=ROOT):
    """Refuse to store answers of code that no commit has."""
    command = ["git", "status", "--porcelain", "--", "skfedcausal"]
    changed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if changed.returncode:
        raise GoldenFileError(f"--write needs a git checkout, to know which commit gave the answers: {changed.stderr}")
    files = [line[3:] for line in changed.stdout.splitlines()]
    if files:
        raise GoldenFileError(
            f"--write is refused: {len(files)} files under skfedcausal/ are not committed ({', '.join(files[:5])}). "
            "Commit them first, so that the stored answers are those of a commit."
        )
