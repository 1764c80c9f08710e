"""What a watch keeps on disk: where it stood some while ago, and all that came since, so that it may be killed.

Rows are written before they are judged, and what was told after it was told. A watch that is started again takes the
last state, judges the rows since then once more, and tells what was not told.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from ...federation.atomic import keep_private, make_folder, only_one, write_whole
from ...saving import save

FORMAT = 2
_STATE = "state"
_AS_JSON = json.JSONEncoder(separators=(",", ":"), default=str)  # made once: there is a record for each batch


class StateError(RuntimeError):
    """A state that cannot be taken up."""


class Journal:
    """A folder with a state, the detector as a model file, and the records since then.

    Parameters
    ----------
    folder : Path
        Made where it is missing; only its owner may read it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.commands.watching.journal import Journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder))
    ...     journal.keep({"n": 1}, FederatedRCADetector())
    ...     journal.append({"row": 1.5})
    ...     journal.close()
    ...     kept, model, records = Journal(Path(folder)).read()
    >>> kept, model.name, records
    ({'n': 1}, 'model-000000001.skfc', [{'row': 1.5}])
    """

    def __init__(self, folder):
        self._folder, self._number, self._file, self._torn = Path(folder), 0, None, False

    def lock(self):
        """A context in which no other watch has the folder."""
        return only_one(self._folder / "lock", f"a watch with the state {self._folder}")

    @property
    def name(self):
        """By which a broker knows the watch of this folder, and no other: made once."""
        path, made = self._folder / "name", f"skfedcausal-{os.urandom(5).hex()}"
        with suppress(OSError):  # no room: a broker will not know it again
            if not path.exists():
                write_whole(path, made.encode())
            return path.read_text()
        return made

    def check(self):
        """See whether the folder can be written to; OSError if not."""
        make_folder(self._folder)
        keep_private(self._folder)
        write_whole(self._folder / "check", b"\0" * 4096)
        (self._folder / "check").unlink()

    def read(self):
        """What was kept, as (words and numbers, path of the detector, records since then); None where nothing was."""
        try:
            about = json.loads((self._folder / _STATE).read_bytes().partition(b"\n")[0])
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # the last two were named by `check`
            return None
        except ValueError as error:
            raise StateError(
                f"{self._folder / _STATE} is no state of a watch ({error}): move the folder away to begin anew."
            ) from None
        if about.get("format") != FORMAT:
            raise StateError(
                f"{self._folder / _STATE} has format {about.get('format')}, and this version reads {FORMAT}: "
                "move the folder away to start afresh."
            )
        self._number = about["number"]
        records = [record for path in self._segments() for record in _records(path)]
        return about["kept"], self._model(self._number), records

    def append(self, record):
        """Add a record; OSError if there is no room, and the next one may try again."""
        if self._file is None:
            last = max([self._number, *map(_number, self._segments())])
            path = self._folder / f"rows-{last:09d}.jsonl"
            self._torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        line = _AS_JSON.encode(record).encode() + b"\n"
        line = b"\n" + line if self._torn else line
        self._torn = True
        self._torn = os.write(self._file, line) < len(line)
        if self._torn:
            raise OSError(28, "No space left on device")

    def keep(self, kept, detector):
        """Keep a state and a detector in place of those before and of the records since then."""
        number = max([self._number, *map(_number, self._segments())]) + 1
        save(detector, self._model(number), compress=False)
        text = json.dumps({"format": FORMAT, "number": number, "kept": kept}, default=str)
        write_whole(self._folder / _STATE, text.encode())  # from now on the model of this number counts
        self.close()
        for path in [*self._folder.glob("rows-*.jsonl"), *self._folder.glob("model-*.skfc")]:
            if _number(path) < number:
                path.unlink()
        self._number = number

    def close(self):
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _model(self, number):
        return self._folder / f"model-{number:09d}.skfc"

    def _segments(self):
        """Files of records since the state, in order."""
        return sorted(path for path in self._folder.glob("rows-*.jsonl") if _number(path) >= self._number)


def _number(path):
    return int(path.stem.rpartition("-")[2])


def _records(path):
    """Records of a file; one that was not written to its end did not happen."""
    for line in path.read_bytes().split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue
