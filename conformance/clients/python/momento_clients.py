"""Clients of Momento's published Python library, which note which of their methods were called."""

import asyncio
import base64
import json
from datetime import timedelta

from momento import (
    AuthClient,
    AuthClientAsync,
    CacheClient,
    CacheClientAsync,
    Configurations,
    CredentialProvider,
    TopicClient,
    TopicClientAsync,
    TopicConfigurations,
)
from momento.config.auth_configurations import AuthConfigurations
from momento.errors import MomentoErrorCode

CACHE = "default"
CLASSES = {
    "sync": {"cache": CacheClient, "topics": TopicClient, "auth": AuthClient},
    "async": {"cache": CacheClientAsync, "topics": TopicClientAsync, "auth": AuthClientAsync},
}
# The names of the methods that the tests have called, of each class.
called = {cls: set() for classes in CLASSES.values() for cls in classes.values()}


def is_(kind, response):
    """Returns the response, and fails unless it is of this kind, such as `Hit`."""
    assert type(response).__name__ == kind, f"{type(response).__qualname__}: {response}"
    return response


def fails(code, response):
    error = is_("Error", response)
    assert error.error_code == getattr(MomentoErrorCode, code), str(error)
    return error


def limit_of(error):
    """Returns the limit that the metadata `err` of an error names."""
    return dict(error.inner_exception.transport_details.grpc.metadata)["err"]


def token_of(key):
    """Returns the token in an API key, which the library encodes together with an endpoint."""
    return json.loads(base64.b64decode(key))["api_key"]


class Blocking:
    """An object of either API. The methods of the asynchronous one run in an event loop until they are complete."""

    def __init__(self, target, loop):
        self._target, self._loop = target, loop

    def __getattr__(self, name):
        member = getattr(self._target, name)
        if not callable(member):
            return member
        if type(self._target) in called:
            called[type(self._target)].add(name)

        def call(*args, **kwargs):
            return self._resolved(member(*args, **kwargs))

        return call

    def _resolved(self, result):
        if asyncio.iscoroutine(result):
            result = self._loop.run_until_complete(asyncio.wait_for(result, 20))
        return Blocking(result, self._loop) if "Subscription" in type(result).__name__ else result

    def __next__(self):
        if hasattr(self._target, "__anext__"):
            return self._resolved(self._target.__anext__())
        return next(self._target)


class Clients:
    """Opens clients of one API, aimed at a port. `token`: a password or token; without one, calls carry none."""

    def __init__(self, api, port):
        self.api, self.port, self.opened = api, port, []
        self.loop = asyncio.new_event_loop()

    def _open(self, kind, configuration, token, *more):
        credentials = CredentialProvider.for_momento_local("127.0.0.1", self.port)
        if token:
            credentials = CredentialProvider(token, "127.0.0.1", "127.0.0.1", "127.0.0.1", self.port)
        cls = CLASSES[self.api][kind]

        async def create():
            return cls(configuration, credentials, *more)

        # The channels of the asynchronous API belong to the loop that runs when they are created.
        made = self.loop.run_until_complete(create()) if self.api == "async" else cls(configuration, credentials, *more)
        self.opened.append(Blocking(made, self.loop))
        return self.opened[-1]

    def cache(self, token=""):
        # Longer than that of the preset, for a busy host.
        configuration = Configurations.Laptop.latest().with_client_timeout(timedelta(seconds=30))
        return self._open("cache", configuration, token, timedelta(seconds=60))

    def topics(self, token=""):
        return self._open("topics", TopicConfigurations.Default.latest(), token)

    def auth(self, token=""):
        return self._open("auth", AuthConfigurations.Laptop.latest(), token)

    def close(self):
        for client in self.opened:
            if hasattr(client._target, "close"):
                client.close()
        self.loop.close()
