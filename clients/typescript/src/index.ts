/** Client library of Gannet, an in-memory store. */

export {
  CacheClient,
  type ClientOptions,
  type CollectionOptions,
  type IndexRange,
  type ListPushOptions,
  type OrderOption,
  type Pairs,
  type ScoreRange,
  type StoreOptions,
} from "./client.js";
export { Configuration, Configurations, type PresetVersions, type Settings } from "./configuration.js";
export { CredentialProvider } from "./credentials.js";
export type { CallOptions } from "./engine.js";
export { CacheError, ErrorCode } from "./errors.js";
export type { MethodMetrics, Metrics } from "./metrics.js";
export type { CallEnd, CallStart, Middleware } from "./middleware.js";
export * from "./results.js";
export { ExponentialBackoff, FixedCount, FixedTimeout, NoRetry, RetryBudget, type RetryStrategy } from "./retry.js";
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
