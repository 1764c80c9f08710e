"""Every key of every settings file stands on the page of settings."""

import re
from dataclasses import fields

import pytest

from skfedcausal.client.site_record import SitePrivacy
from skfedcausal.commands.watching import settings as watching
from skfedcausal.sites.server import ServerSettings
from skfedcausal.sites.settings import _TABLES, DealerSettings, SiteSums
from skfedcausal.sites.site import SiteSettings

from .words import DOCS

_PAGE = (DOCS / "settings.rst").read_text(encoding="utf-8")
_LITERALS = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"``([^`]*)``", _PAGE))))


@pytest.mark.parametrize(
    "declared",
    [
        *(SiteSettings, SitePrivacy, SiteSums, DealerSettings, ServerSettings),
        *(watching.WatchSettings, watching.SourceSettings, watching.MailSettings, watching.SyslogSettings),
        *(watching.TableSettings, watching.PublishSettings, watching.LiveSettings),
    ],
)
def test_every_key_is_on_the_page(declared):
    keys = {each.name for each in fields(declared)} - set(_TABLES)
    assert keys - _LITERALS == set()


@pytest.mark.parametrize(("heading", "declared"), [("A site", SiteSettings), ("The server", ServerSettings)])
def test_no_key_of_a_table_is_unknown(heading, declared):
    rows = re.search(rf"\n{heading}\n=+\n.*?\nkey .*?\n=[= ]+\n(.*?)\n=", _PAGE, re.DOTALL)[1].splitlines()
    keys = re.findall(r"``([a-z_, ]+)``", "\n".join(row.partition("  ")[0] for row in rows))
    known = {each.name for each in fields(declared)}
    assert keys
    assert {key for group in keys for key in group.split(", ")} - known == set()
