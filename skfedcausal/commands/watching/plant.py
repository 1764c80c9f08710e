"""The plant of a watch: its nominal record, the detector that learned from it, and the names that a source has."""

import hashlib
from typing import NamedTuple

import pandas as pd

from ..._version import __version__
from ...client.baseline_options import Baseline
from ...containers.modes import is_called
from ...containers.rows import sampling_period
from ...estimators._declared import has_words
from ...estimators.detector import FederatedRCADetector
from ...historian.forms import cells_of
from ...historian.naming import unit_names
from ...historian.table import PlantTable
from ...historian.times import is_told
from ...sites.settings import SettingsError
from ...streams.cells import Stamps


class Plant(NamedTuple):
    """What is known of a plant before its rows come."""

    nominal: pd.DataFrame
    lengths: tuple | None
    names: dict  # column of the plant by its name in the source
    words: tuple  # columns that may hold words
    said: tuple  # what was put right in the nominal record

    @property
    def period(self):
        """Time between two rows, None where they have no times."""
        return sampling_period(self.nominal.index)

    @property
    def is_zoned(self):
        """Whether its times have a zone, which is UTC."""
        return isinstance(self.nominal.index, pd.DatetimeIndex) and self.nominal.index.tz is not None

    def fitted(self, settings):
        """A detector that has learned what is nominal."""
        detector = FederatedRCADetector(
            false_alarm_rate=settings.false_alarms,
            input_columns=list(settings.inputs) or None,
            baseline=Baseline(mode=settings.mode),
        )
        return detector.fit(self.nominal, lengths=self.lengths)


def read_plant(settings):
    """The nominal record of a watch, on the clock of its stream."""
    if settings.is_named:
        return _as_other_commands(settings)
    nominal = pd.read_csv(settings.nominal, index_col=0, parse_dates=True)
    if not all("__" in str(name) or name in (settings.mode, *settings.inputs) for name in nominal):
        return _as_other_commands(settings)
    words = () if settings.mode is None else tuple(name for name in nominal if is_called(name, settings.mode))
    words += tuple(name for name in settings.inputs if name not in words and has_words(nominal[[name]]))
    return Plant(_on_one_clock(nominal, settings.tz), None, {}, words, ())


def _as_other_commands(settings):
    units = settings.units if isinstance(settings.units, str) else "prefix"
    drop = [settings.drop] if isinstance(settings.drop, str) else list(settings.drop)
    table = PlantTable.read(settings.nominal, units=units, tz=settings.tz, fix=settings.fix, drop=drop)
    if table.fix_first:
        raise SettingsError("\n".join(["The nominal record has to be fixed first (fix = 'all'):", *table.fix_first]))
    columns = [str(name) for name in cells_of(settings.nominal)]
    found, _ = unit_names([name for name in columns if not is_told(name)], units)
    names = {name: flat for name, flat in found.items() if flat in table.frame}
    lengths = None if len(table.lengths) == 1 else table.lengths
    return Plant(_on_one_clock(table.frame, settings.tz), lengths, names, (), table.said)


def _on_one_clock(nominal, tz):
    index = nominal.index
    if not isinstance(index, pd.DatetimeIndex) or (index.tz is None and tz is None):
        return nominal
    if index.tz is None:
        return nominal.set_axis(Stamps(tz).read(index.to_pydatetime()), axis=0)
    return nominal.tz_convert("UTC")


def fingerprint(settings):
    """What a state belongs to: the nominal record, what was asked for, and the version that learned from it."""
    asked = [settings.false_alarms, settings.inputs, settings.mode, settings.units, settings.fix, settings.drop]
    text = repr([*asked, settings.tz, settings.source, __version__]).encode()
    return hashlib.sha256(settings.nominal.read_bytes() + text).hexdigest()
