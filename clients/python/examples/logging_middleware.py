"""Logs each call that fails or takes longer than 10 ms.

python logging_middleware.py 127.0.0.1:7000
"""

import logging
import sys

from gannet import CacheClient, CallEnd, Configurations, Middleware

SLOW_S = 0.010


class SlowCalls(Middleware):
    """Writes slow and failed calls to the log."""

    def after(self, end: CallEnd) -> None:
        if end.error is not None:
            logging.warning("%s failed: %s", end.method, end.error)
        elif end.duration_s > SLOW_S:
            logging.info("%s took %.1f ms, %.1f of them queued", end.method, end.duration_s * 1e3, end.queued_s * 1e3)


def main(address: str) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    configuration = Configurations.Laptop.latest().with_middleware(SlowCalls())
    with CacheClient(address, configuration) as client:
        client.list_push_back("tasks", "first")
        print("a call on an item of another type fails:", client.get("tasks").outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
