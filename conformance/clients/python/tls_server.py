"""Fixtures of a server with TLS on both ports, for the suites that import them."""

import subprocess
from pathlib import Path

import pytest

from server import Server

CERTIFICATES = Path(__file__).resolve().parent.parent / "certificates"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run([str(CERTIFICATES), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with Server(resp=True, TLS=str(folder)) as running:
        yield running
