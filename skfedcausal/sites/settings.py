"""Settings files: a section is read by the class of its settings; sections of secure sums."""

import math
import re
import tomllib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Literal, get_args, get_origin

from ..client.site_record import SUMS, SettingsError, account_lines, check_account
from ..containers.arrays import listed
from ..federation.atomic import file_name
from ..federation.envelope import read_key
from ..federation.gate import Gate, SitePolicy
from ..secure.client import SumsAccount, SumsWorker
from ..secure.dealer import Dealer
from ..secure.protocol import MOST

# Settings files: a section is read by the class of its settings, whose fields say keys, types, defaults.

_IN_TOML = {Path: (str,), tuple: (list,), float: (int, float)}  # other types are what they are
# sections of their own
_TABLES = ("client", "privacy", "policy", "secure_sums", "learner", "detector", "questions")
_FORMULA = tuple("=+-@\t\r")  # what a cell begins with that a spreadsheet computes


def read_settings_file(path):
    """All sections of a settings file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"There is no settings file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None


class SettingProblems(ValueError):
    """What is wrong with settings, by key."""

    def __init__(self, problems):
        super().__init__(" ".join(f"{key} = {text}" for key, text in problems))
        self.problems = list(problems)


def read_section(everything, path, section, declared, **more):
    """Settings of the class `declared` in a section of a file; `more`: defaults, other sections.

    Paths are relative to the folder of the file. All that is wrong is told at once, with its lines.
    """
    table = everything.get(section)
    if not isinstance(table, dict):
        raise SettingsError(f"{path} has no section [{section}].")
    where = f"{path}, [{section}]"
    keys = {each.name: each for each in fields(declared) if each.name not in _TABLES}
    wrong, unknown = [], sorted(table.keys() - keys)
    if unknown:
        wrong.append(f"unknown keys {listed(unknown)}{_lines(path, section, unknown)}; known are {listed(keys)}.")
    for key, value in table.items():
        kinds = sum((_IN_TOML.get(kind, (kind,)) for kind in _types(keys[key])), ()) if key in keys else ()
        if key in keys and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            wrong.append(f"`{key}` is {value!r}, of the wrong kind{_lines(path, section, [key])}.")
    missing = [key for key, each in keys.items() if _has_no_default(each) and key not in table and key not in more]
    if missing:
        wrong.append(f"give {listed(missing)} too; there is no default.")
    if wrong:
        raise SettingsError("\n".join(f"{where}: {text}" for text in wrong))
    try:
        return declared(**converted(declared, {**more, **table}, Path(path).resolve().parent))
    except SettingProblems as error:
        told = (f"{where}: {key}{_lines(path, section, [key])} = {text}" for key, text in error.problems)
        raise SettingsError("\n".join(told)) from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def _has_no_default(each):
    return each.default is MISSING and each.default_factory is MISSING


def _lines(path, section, keys):
    """Lines of a settings file in which keys of a section stand, in words; nothing where they are not found."""
    here, found = "", []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        head = re.match(r"\s*\[([^\[\]]+)\]", line)
        here = head[1].strip() if head else here
        name = line.partition("=")[0].strip().strip("\"'")
        if here == section and "=" in line and name in keys:
            found.append(str(number))
    return f" (line {', '.join(found)})" if found else ""


def converted(declared, values, folder=Path()):
    """Values as TOML and JSON have them, with paths and tuples where the class declares them."""
    types = {each.name: _types(each) for each in fields(declared)}
    values = {name: value for name, value in values.items() if value is not None}
    paths = {name: folder / value for name, value in values.items() if Path in types[name]}
    lists = {
        name: tuple(value) for name, value in values.items() if tuple in types[name] and not isinstance(value, str)
    }
    return {**values, **paths, **lists}


def _types(each):
    """Types that the annotation of a field allows."""
    return (str,) if get_origin(each.type) is Literal else get_args(each.type) or (each.type,)


def check_numbers(settings, least):
    """Refuse numbers below the least that makes sense, and those that are none; None is no number."""
    for name, (floor, allowed) in least.items():
        value = getattr(settings, name)
        if value is not None and not (math.isfinite(value) and (value >= floor if allowed else value > floor)):
            raise SettingProblems([(name, f"{value!r}; give a number {'from' if allowed else 'above'} {floor:g}.")])


def csv_bytes(table, **how):
    """A table as CSV, in which no text is a formula to a program that opens it."""
    words = table.select_dtypes(exclude=["number", "datetime", "datetimetz", "timedelta"]).columns
    safe = table.assign(**{name: table[name].map(_no_formula) for name in words if isinstance(name, str)})
    safe = safe.rename(columns=_no_formula)
    if how.get("index", True):
        safe = safe.rename(index=_no_formula)
    return safe.to_csv(**how).encode()


def _no_formula(value):
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA and not _is_number(value) else value


def _is_number(text):
    try:
        return math.isfinite(float(text)) and text == text.strip()
    except ValueError:
        return False


# Settings of secure sums: section ``[secure_sums]`` of a site, and ``[dealer]`` in a file of its own.


@dataclass(frozen=True)
class SiteSums:
    """Section ``[secure_sums]`` of a site's settings: with it the site sends masked sums and nothing else."""

    key: Path
    most: float = MOST
    answers: int = 1

    def __post_init__(self):
        if not 0 < self.most <= 1 or self.answers < 1:
            raise SettingsError("[secure_sums] has `most` above 0 and up to 1, and `answers` of at least 1.")

    def around(self, worker, home=None):
        """The unit's worker as one that takes part in secure sums; without its home for a dry run."""
        account = None if home is None else checked_sums(home, self.answers)
        return SumsWorker(worker, read_key(self.key), most=self.most, account=account)


def checked_sums(home, most, **how):
    """Account of secure sums in a home; LedgerError if it is older than what the ledger there says of it."""
    account = SumsAccount(home / SUMS, most, **how)
    check_account(home, SUMS)
    return account


def sums_head(home):
    """What tells the ledger the last line of this account."""
    return lambda: account_lines(home, SUMS)[-1]


@dataclass(frozen=True)
class DealerSettings:
    """Section ``[dealer]`` of a settings file: who shares a key with the dealer, and where it answers."""

    units: tuple
    unit_keys: Path
    home: Path = Path("home-dealer")
    name: str = "dealer"
    folder: Path | None = None
    key: Path | None = None
    max_bytes: int | None = None
    timeout: float | None = None
    answers: int = 1

    # what commands ask of the settings of a site
    one_way = False
    run = None
    server_key = None

    def gate(self, *, key=None):
        """The dealer's gate."""
        keys = {name: read_key(self.unit_keys / f"{file_name(name)}.key") for name in self.units}
        # it has no data: whoever holds its key may ask
        policy = SitePolicy.unlimited()
        dealer = Dealer(keys, checked_sums(self.home, self.answers, of_each=True))
        account = sums_head(self.home)
        return Gate(self.name, dealer, self.home, key=key, max_bytes=self.max_bytes, policy=policy, account=account)

    def read_key(self):
        """The key shared with the server."""
        if self.key is None:
            raise SettingsError("[dealer] names no `key`: give the file of the key shared with the server.")
        return read_key(self.key)
