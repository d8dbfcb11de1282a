"""Shows the differences that docs/momento.md lists to users of Momento's published Python library."""

import subprocess
import sys

import pytest
from momento import CredentialProvider

from momento_clients import CACHE, Clients, fails, is_
from server import SERVE, free_port
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


def first_session(port):
    """Runs the program in the first session of docs/grpc.md."""
    text = (SERVE.parent.parent.parent / "docs" / "grpc.md").read_text()
    program = text.split("<<'END'\n", 1)[1].split("\nEND\n", 1)[0]
    assert "7000" in program
    command = [sys.executable, "-c", program.replace("7000", str(port))]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_first_session_of_the_documentation_prints_its_value(server, plain):  # noqa: F811
    ran = first_session(server.grpc_port)
    assert (ran.returncode, ran.stdout) == (0, "hello\n"), ran.stderr


def test_the_first_session_of_the_documentation_hides_no_error():
    ran = first_session(free_port())
    assert ran.returncode == 1 and ran.stdout == "" and "AttributeError" not in ran.stderr
    assert "connect" in ran.stderr.lower(), ran.stderr
