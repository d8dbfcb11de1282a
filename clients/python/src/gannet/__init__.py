"""Client library of Gannet, an in-memory store.

    from gannet import CacheClient, CacheError, Configurations, GetHit, Miss

    with CacheClient("127.0.0.1:7000", Configurations.Laptop.latest()) as client:
        client.set("greeting", "hello")
        match client.get("greeting"):
            case GetHit() as hit:
                print(hit.value_string)
            case Miss():
                print("not there")
            case CacheError() as error:
                print(error.message)

`CacheClientAsync` has the same calls as coroutines, for asyncio.
"""

from gannet._requests import CollectionTtl
from gannet._streams_async import SubscriptionAsync
from gannet._streams_sync import Subscription
from gannet.cancellation import Cancellation
from gannet.client import CacheClient
from gannet.client_async import CacheClientAsync
from gannet.configuration import Configuration, Configurations
from gannet.credentials import CredentialProvider
from gannet.errors import CacheError, ErrorCode
from gannet.metrics import MethodMetrics, Metrics
from gannet.middleware import CallEnd, CallStart, Middleware
from gannet.results import (
    ContainsHit,
    DictionaryFieldsHit,
    DictionaryHit,
    GetBatchSuccess,
    GetHit,
    GetMiss,
    GetWithHashHit,
    IncrementSuccess,
    ItemType,
    KeysExistSuccess,
    LengthHit,
    LengthSuccess,
    ListCachesSuccess,
    ListHit,
    Miss,
    NotStored,
    PopHit,
    RankHit,
    ScoreHit,
    ScoresHit,
    ScoreSuccess,
    SetHit,
    SortedSetHit,
    Stored,
    StoredWithHash,
    Success,
    TtlHit,
    TypeHit,
)
from gannet.retry import ExponentialBackoff, FixedCount, FixedTimeout, Hedging, NoRetry, RetryBudget
from gannet.topics import TopicDiscontinuity, TopicEvent, TopicHeartbeat, TopicItem
from gannet.version import VERSION as __version__

__all__ = [
    "CacheClient",
    "CacheClientAsync",
    "CacheError",
    "CallEnd",
    "CallStart",
    "Cancellation",
    "CollectionTtl",
    "Configuration",
    "Configurations",
    "ContainsHit",
    "CredentialProvider",
    "DictionaryFieldsHit",
    "DictionaryHit",
    "ErrorCode",
    "ExponentialBackoff",
    "FixedCount",
    "FixedTimeout",
    "GetBatchSuccess",
    "GetHit",
    "GetMiss",
    "GetWithHashHit",
    "Hedging",
    "IncrementSuccess",
    "ItemType",
    "KeysExistSuccess",
    "LengthHit",
    "LengthSuccess",
    "ListCachesSuccess",
    "ListHit",
    "MethodMetrics",
    "Metrics",
    "Middleware",
    "Miss",
    "NoRetry",
    "NotStored",
    "PopHit",
    "RankHit",
    "RetryBudget",
    "ScoreHit",
    "ScoreSuccess",
    "ScoresHit",
    "SetHit",
    "SortedSetHit",
    "Stored",
    "StoredWithHash",
    "Subscription",
    "SubscriptionAsync",
    "Success",
    "TopicDiscontinuity",
    "TopicEvent",
    "TopicHeartbeat",
    "TopicItem",
    "TtlHit",
    "TypeHit",
    "__version__",
]
