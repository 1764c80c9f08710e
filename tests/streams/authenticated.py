"""A plugin of the broker that knows one user."""

import pytest

from .broker import PASSWORD, USER


class OneUser(pytest.importorskip("amqtt.plugins.base").BaseAuthPlugin):
    async def authenticate(self, *, session):
        return (session.username, session.password) == (USER, PASSWORD)
