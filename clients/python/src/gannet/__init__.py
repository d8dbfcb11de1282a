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
from gannet.metrics import MethodMetrics, Metrics, NearCacheMetrics
from gannet.middleware import CallEnd, CallStart, Middleware
from gannet.near_cache import NearCache
from gannet.permissions import (
    AllPermissions,
    ItemPermission,
    Permission,
    Permissions,
    Role,
    TopicPermission,
)
from gannet.records import BinValue, Record, RecordOptions, RecordWhen
from gannet.results import (
    ApiToken,
    ContainsHit,
    DictionaryFieldsHit,
    DictionaryHit,
    DisposableToken,
    GetBatchSuccess,
    GetHit,
    GetMiss,
    GetWithHashHit,
    IncrementSuccess,
    ItemType,
    KeysExistSuccess,
    LeaseHit,
    LeaseWait,
    LeaseWon,
    LengthHit,
    LengthSuccess,
    ListCachesSuccess,
    ListHit,
    Miss,
    NotStored,
    PopHit,
    RankedElement,
    RankedElements,
    RankHit,
    RecordChanged,
    RecordHit,
    RecordPage,
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
    "AllPermissions",
    "ApiToken",
    "BinValue",
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
    "DisposableToken",
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
    "ItemPermission",
    "ItemType",
    "KeysExistSuccess",
    "LeaseHit",
    "LeaseWait",
    "LeaseWon",
    "LengthHit",
    "LengthSuccess",
    "ListCachesSuccess",
    "ListHit",
    "MethodMetrics",
    "Metrics",
    "Middleware",
    "Miss",
    "NearCache",
    "NearCacheMetrics",
    "NoRetry",
    "NotStored",
    "Permission",
    "Permissions",
    "PopHit",
    "RankHit",
    "RankedElement",
    "RankedElements",
    "Record",
    "RecordChanged",
    "RecordHit",
    "RecordOptions",
    "RecordPage",
    "RecordWhen",
    "RetryBudget",
    "Role",
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
    "TopicPermission",
    "TtlHit",
    "TypeHit",
    "__version__",
]
