"""The record that a site has watched: one file, or a folder into which files come one after the other."""

from dataclasses import replace

from ..client.batches import Batch
from ..containers.layout import listed
from .record import SettingsError, SiteRecord

_SUFFIXES = (".csv", ".npy")


class SiteBatches:
    """Batches of a watched record in files.

    In a folder every ``.csv`` or ``.npy`` file is a batch, in the order of their names; a file is to be
    moved there whole, or written under another ending and renamed.
    """

    def __init__(self, settings, columns, released=None):
        self._settings, self._columns, self._released = settings, columns, released
        self._read = []  # names of the files so far
        self._last = 0, None  # number and batch that were read last
        if not settings.watched.exists():
            raise SettingsError(
                f"There is no file or folder {settings.watched} with the record of {settings.name!r} that is "
                "to be watched."
            )

    @property
    def files(self):
        """Files that are there, in the order of their names."""
        path = self._settings.watched
        if not path.is_dir():
            return [path]
        inside = (file for file in path.iterdir() if file.suffix in _SUFFIXES and file.name[0] != ".")
        return sorted(inside, key=lambda file: file.name)

    def batch(self, number):
        """Batch of a number from 1, None where it is not there yet."""
        if number == self._last[0]:
            return self._last[1]
        files = self.files
        if len(files) < number:
            return None
        names, read = [file.name for file in files], self._read
        if names[: len(read)] != read:
            raise SettingsError(
                f"{self._settings.watched}: the first files were {listed(read)} and are "
                f"{listed(names[: len(read)])} now; batches stay, and come in the order of their names."
            )
        path = files[number - 1]
        record = SiteRecord.read(replace(self._settings, data=path, lengths=None))
        if record.inputs is not None:
            raise SettingsError("[site] `watched` and `inputs`: a detector has no inputs.")
        named = path.suffix == self._settings.data.suffix == ".csv"  # arrays have no names
        if len(record.columns) != len(self._columns) or (named and record.columns != self._columns):
            raise SettingsError(
                f"{path} has the columns {listed(record.columns)}; the record of the unit has "
                f"{listed(self._columns)}."
            )
        if self._released is not None:
            record = self._released(record)
        self._read = names[: max(len(read), number)]
        self._last = number, Batch(record.outputs, record.starts, f"{path.name} {record.fingerprint}")
        return self._last[1]
