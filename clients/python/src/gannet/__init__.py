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

from gannet._graph import Graph
from gannet._graph_async import GraphAsync
from gannet._requests import CollectionTtl
from gannet._streams_async import SubscriptionAsync
from gannet._streams_sync import Subscription
from gannet.cancellation import Cancellation
from gannet.client import CacheClient
from gannet.client_async import CacheClientAsync
from gannet.configuration import Configuration, Configurations
from gannet.credentials import CredentialProvider
from gannet.errors import CacheError, ErrorCode
from gannet.graph_queries import GraphQuery
from gannet.graphs import Edge, EdgeState, SetOperation
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
    Distances,
    EdgeInfo,
    EdgesChanged,
    EdgesFound,
    GetBatchSuccess,
    GetHit,
    GetMiss,
    GetWithHashHit,
    GraphAnswers,
    GraphStats,
    GraphStoreStats,
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
    MutualNodes,
    Neighbour,
    NeighbourPage,
    NodeChanged,
    NodeCount,
    NodeHit,
    NodePage,
    NotStored,
    Paths,
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
    Suggestion,
    Suggestions,
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
    "Distances",
    "Edge",
    "EdgeInfo",
    "EdgeState",
    "EdgesChanged",
    "EdgesFound",
    "ErrorCode",
    "ExponentialBackoff",
    "FixedCount",
    "FixedTimeout",
    "GetBatchSuccess",
    "GetHit",
    "GetMiss",
    "GetWithHashHit",
    "Graph",
    "GraphAnswers",
    "GraphAsync",
    "GraphQuery",
    "GraphStats",
    "GraphStoreStats",
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
    "MutualNodes",
    "NearCache",
    "NearCacheMetrics",
    "Neighbour",
    "NeighbourPage",
    "NoRetry",
    "NodeChanged",
    "NodeCount",
    "NodeHit",
    "NodePage",
    "NotStored",
    "Paths",
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
    "SetOperation",
    "SortedSetHit",
    "Stored",
    "StoredWithHash",
    "Subscription",
    "SubscriptionAsync",
    "Success",
    "Suggestion",
    "Suggestions",
    "TopicDiscontinuity",
    "TopicEvent",
    "TopicHeartbeat",
    "TopicItem",
    "TopicPermission",
    "TtlHit",
    "TypeHit",
    "__version__",
]
