"""A plugin of the broker that knows one user."""

from amqtt.plugins.base import BaseAuthPlugin

from .broker import PASSWORD, USER


class OneUser(BaseAuthPlugin):
    async def authenticate(self, *, session):
        return (session.username, session.password) == (USER, PASSWORD)
