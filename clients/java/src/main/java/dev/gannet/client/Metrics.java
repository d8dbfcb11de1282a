package dev.gannet.client;

import java.time.Duration;
import java.util.Map;

/**
 * A snapshot of a client's metrics. Counters are those since the client was created.
 *
 * @param inFlight the number of requests that were sent and whose replies are awaited
 * @param queued the number of requests that wait in the client's queue
 * @param connections the number of connections that the client uses
 * @param retries the number of repeated requests
 * @param hedges the number of requests that were sent a second time because the reply was slow
 * @param resumes the number of subscriptions that were continued on a new stream
 * @param methods the calls and latencies by the name of the call in the schema; empty unless the configuration enables
 *     metrics
 */
public record Metrics(
        int inFlight,
        int queued,
        int connections,
        long retries,
        long hedges,
        long resumes,
        Map<String, MethodMetrics> methods) {
    /**
     * The calls of one method so far.
     *
     * @param calls the number of calls that have ended
     * @param errors the number of failed calls by their code
     * @param p50 the median latency
     * @param p99 the 99th percentile of the latencies
     * @param p999 the 99.9th percentile of the latencies
     */
    public record MethodMetrics(
            long calls, Map<ErrorCode, Long> errors, Duration p50, Duration p99, Duration p999) {}
}
