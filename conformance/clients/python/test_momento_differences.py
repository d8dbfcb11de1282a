"""Shows the differences that docs/momento.md lists to users of Momento's published Python library."""

import pytest
from momento import CredentialProvider

from momento_clients import CACHE, Clients, fails, is_
from test_grpc import plain, server  # noqa: F401 (fixtures)


@pytest.fixture
def clients(server, plain):  # noqa: F811
    clients = Clients("sync", server.grpc_port)
    yield clients
    clients.close()


def test_any_token_is_accepted_while_no_user_has_a_password(clients, plain):  # noqa: F811
    is_("Miss", clients.cache("any").get(CACHE, "k"))
    plain.execute_command("ACL", "SETUSER", "default", "on", "resetpass", ">secret")
    fails("AUTHENTICATION_ERROR", clients.cache("any").get(CACHE, "k"))
    is_("Miss", clients.cache("secret").get(CACHE, "k"))
    plain.execute_command("ACL", "SETUSER", "default", "nopass")


def test_issued_token_is_no_key_of_version_2(clients):
    """The library takes JSON web tokens of Momento alone for such keys."""
    from momento.errors.exceptions import InvalidArgumentException

    with pytest.raises(InvalidArgumentException):
        CredentialProvider.from_api_key_v2("gannet1.payload.signature", "127.0.0.1")
