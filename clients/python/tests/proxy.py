"""A TCP proxy between a client and a real server: ends TLS, holds back replies, and interrupts the network."""

import contextlib
import math
import socket
import ssl
import threading


class Proxy:
    """Forwards connections to `port`. With `context`, its own side uses TLS."""

    def __init__(self, port, context=None):
        self._target, self._context = port, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.port = self._listener.getsockname()[1]
        self.gates = []
        # The number of the first connections whose bytes are read and not sent on.
        self._swallowed = 0
        # Set unless the bytes of all connections wait.
        self._open = threading.Event()
        self._open.set()
        self._sockets = []
        self._threads = []
        self._spawn(self._accept)

    def _spawn(self, target, *args):
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(self._serve, client)

    def _serve(self, client):
        self._sockets.append(client)
        try:
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
                self._sockets.append(client)
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._sockets.append(server)
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gate = threading.Event()
        gate.set()
        number = len(self.gates)
        self.gates.append(gate)
        self._spawn(self._pump, client, server, None, number)
        self._spawn(self._pump, server, client, gate, number)

    def _pump(self, source, sink, gate, number):
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(65536):
                if gate is not None:
                    gate.wait()
                self._open.wait()
                if number >= self._swallowed:
                    sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def swallow(self):
        """Discards all further bytes of the present connections, which stay open."""
        self._swallowed = len(self.gates)

    def network(self, action):
        """Changes the network as a step of a scenario does: `hold`, `swallow` or `forward`."""
        assert action in ("hold", "swallow", "forward"), f"unknown action of the network: {action}"
        if action == "swallow":
            self._swallowed = math.inf
        elif self._swallowed == math.inf:
            self.swallow()
        if action == "hold":
            self._open.clear()
        else:
            self._open.set()

    def break_connections(self):
        """Ends all present connections. Later ones are forwarded."""
        broken, self._sockets = self._sockets, []
        for each in broken:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._open.set()
        for gate in self.gates:
            gate.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)


def tls_context(folder):
    """Returns the context of a server with the certificate in this folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.set_alpn_protocols(["h2"])
    return context
