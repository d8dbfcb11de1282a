package dev.gannet.client;

/** The values of one version of a preset, in the order and the units of {@code clients/presets.toml}. */
record Preset(
        int deadlineMs,
        int requestsInFlightMax,
        int requestsQueuedMax,
        int streamsPerConnection,
        int connectionsMax,
        boolean eagerConnect,
        int keepaliveTimeMs,
        int keepaliveTimeoutMs,
        boolean keepaliveWithoutCalls,
        int connectTimeoutMs,
        int reconnectDelayMinMs,
        int reconnectDelayMaxMs,
        String retryStrategy,
        int retryCount,
        int retryBudgetPercent,
        int retryBudgetBurst,
        int messageBytesMax) {
    RetryStrategy strategy() {
        return switch (retryStrategy) {
            case "fixed_count" -> RetryStrategy.fixedCount(retryCount);
            case "fixed_timeout" -> RetryStrategy.fixedTimeout();
            case "exponential_backoff" -> RetryStrategy.exponentialBackoff();
            default -> RetryStrategy.none();
        };
    }
}
