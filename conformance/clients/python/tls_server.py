"""Fixtures of a server with TLS on all ports, for the suites that import them."""

import subprocess
from pathlib import Path

import pytest

from server import Server, free_port

CERTIFICATES = Path(__file__).resolve().parent.parent / "certificates"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run([str(CERTIFICATES), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    port = free_port()
    with Server(resp=True, GRPC_PORT=str(port), TLS=str(folder)) as running:
        running.grpc_port = port
        yield running
