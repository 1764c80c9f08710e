"""What tests of several rooms share."""

import pytest

from .reports._browser import BROWSER, Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """The one browser of a run, or of a worker of it."""
    if BROWSER is None:
        pytest.skip("no chromium on this machine")
    one = Browser(tmp_path_factory.mktemp("browser"))
    yield one
    one.close()
