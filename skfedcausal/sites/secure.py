"""Settings of secure sums: section ``[secure_sums]`` of a site, and ``[dealer]`` in a file of its own."""

from dataclasses import dataclass
from pathlib import Path

from ..client.site_privacy import SUMS, account_lines, check_account
from ..client.site_record import SettingsError
from ..federation.atomic import file_name
from ..federation.envelope import read_key
from ..federation.gate import Gate
from ..federation.policy import SitePolicy
from ..secure.client import SumsAccount, SumsWorker
from ..secure.dealer import Dealer
from ..secure.series import MOST


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
