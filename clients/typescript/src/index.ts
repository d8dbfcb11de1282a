/** Client library of Gannet, an in-memory store. */

export type { OrderOption, Pairs, StoreOptions } from "./arguments.js";
export {
  CacheClient,
  type ClientOptions,
  type CollectionOptions,
  type IndexRange,
  type ListPushOptions,
  type ScoreRange,
} from "./client.js";
export { Configuration, Configurations, type PresetVersions, type Settings } from "./configuration.js";
export { CredentialProvider } from "./credentials.js";
export type { CallOptions } from "./engine.js";
export { CacheError, ErrorCode } from "./errors.js";
export { Graph, type ChangeOptions, type EdgeTypeOptions } from "./graph.js";
export {
  Distances,
  EdgesChanged,
  EdgesFound,
  GraphStats,
  GraphStoreStats,
  MutualNodes,
  NeighbourPage,
  NodeChanged,
  NodeCount,
  NodeHit,
  NodePage,
  Paths,
  Suggestions,
  type Attributes,
  type DistancesResult,
  type Edge,
  type EdgeInfo,
  type EdgeLike,
  type EdgesChangedResult,
  type EdgesResult,
  type EdgeState,
  type GraphStatsResult,
  type GraphStoreStatsResult,
  type MutualNodesResult,
  type Neighbour,
  type NeighbourPageResult,
  type NodeChangedResult,
  type NodeCountResult,
  type NodePageResult,
  type NodeResult,
  type PathsResult,
  type SetOperation,
  type Suggestion,
  type SuggestionsResult,
} from "./graphs.js";
export {
  Leaderboard,
  LEADERBOARD_ELEMENTS_MAX,
  RankedElementsSuccess,
  type LeaderboardScoreRange,
  type RankedElement,
  type RankedElementsResult,
  type RankRange,
} from "./leaderboards.js";
export {
  Leases,
  LeaseWait,
  LeaseWon,
  type FillOptions,
  type LeaseOptions,
  type LeaseResult,
} from "./leases.js";
export type { MethodMetrics, Metrics } from "./metrics.js";
export type { CallEnd, CallStart, Middleware } from "./middleware.js";
export { NearCache, type NearCacheMetrics, type NearCacheOptions, type NearCacheResult } from "./near.js";
export {
  GraphAnswers,
  GraphQuery,
  type AnswersOf,
  type BudgetOption,
  type DistanceOptions,
  type LimitOption,
  type NeighbourOptions,
  type NodeList,
  type NodePageOptions,
  type PathOptions,
  type SecondDegreeOptions,
  type SecondDegreePageOptions,
  type SuggestOptions,
} from "./queries.js";
export {
  RecordHit,
  RecordPage,
  Records,
  RevisionSuccess,
  type BinRange,
  type BinValue,
  type BinValueFound,
  type RecordChangeOptions,
  type RecordPageOptions,
  type RecordPageResult,
  type RecordReadOptions,
  type RecordResult,
  type RevisionCondition,
  type RevisionResult,
} from "./records.js";
export * from "./results.js";
export { ExponentialBackoff, FixedCount, FixedTimeout, NoRetry, RetryBudget, type RetryStrategy } from "./retry.js";
export {
  ApiTokenSuccess,
  Permission,
  Tokens,
  TokenSuccess,
  type ApiTokenResult,
  type ItemScope,
  type Permissions,
  type Role,
  type TokenOptions,
  type TokenResult,
  type TopicScope,
} from "./tokens.js";
export {
  TopicDiscontinuity,
  TopicHeartbeat,
  TopicItem,
  Topics,
  TopicSubscription,
  type SubscribeOptions,
  type SubscribeResult,
  type TopicEvent,
  type TopicPosition,
} from "./topics.js";
export { VERSION } from "./version.js";
export type { Bytes, Integer } from "./wire.js";
