"""A first session: stores a value, reads it, and handles each result.

python session.py 127.0.0.1:7000
"""

import sys
from datetime import timedelta

from gannet import CacheClient, CacheError, Configurations, GetHit


def main(address: str) -> int:
    with CacheClient(address, Configurations.Laptop.latest(), default_ttl=timedelta(minutes=1)) as client:
        stored = client.set("greeting", "hello")
        if isinstance(stored, CacheError):
            print(stored.message, file=sys.stderr)
            return 1
        found = client.get("greeting")
        if isinstance(found, GetHit):
            print(found.value_string)
        print(client.list_concatenate_back("queue", ["a", "b", "c"]))
        print(client.list_fetch("queue", -2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
