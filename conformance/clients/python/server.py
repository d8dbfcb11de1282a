"""Starts one server through ../serve and ends it by its process id."""

import os
import socket
import subprocess
import time
from pathlib import Path

SERVE = Path(__file__).resolve().parent.parent / "serve"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """With `resp`, or a `resp_port`, the server also serves Redis clients. `more`: variables for `serve`."""

    def __init__(
        self,
        port: int | None = None,
        resp: bool = False,
        resp_port: int | None = None,
        connections_max: int | None = None,
        **more: str,
    ):
        self.port = port or free_port()
        self.resp_port = resp_port or (free_port() if resp else None)
        resp_only = {"RESP_PORT": str(self.resp_port)} if self.resp_port else {}
        connections = [] if connections_max is None else [str(connections_max)]
        command = [str(SERVE), str(self.port), *connections]
        self.process = subprocess.Popen(command, env=os.environ | resp_only | more)
        self.wait_until_it_listens()

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.resp_port or self.port)

    def wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + 10
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}")
            try:
                socket.create_connection(self.address, timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    self.stop()
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """Ends the server at once, as a crash does."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def raise_file_limit(files: int) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, hard), hard))
