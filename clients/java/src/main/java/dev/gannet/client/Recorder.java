package dev.gannet.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReferenceArray;

/** The calls of one client, by the index of the method. A record is allocated by the first call. */
final class Recorder {
    /** The calls of one method. */
    private static final class MethodRecord {
        final Histogram latencies = new Histogram();
        final AtomicLongArray errors = new AtomicLongArray(ErrorCode.values().length);
    }

    private final AtomicReferenceArray<MethodRecord> methods = new AtomicReferenceArray<>(Method.all().size());

    void record(Method<?, ?> method, long ns, CacheError error) {
        MethodRecord record = methods.get(method.index());
        if (record == null) {
            methods.compareAndSet(method.index(), null, new MethodRecord());
            record = methods.get(method.index());
        }
        record.latencies.record(ns);
        if (error != null) {
            record.errors.incrementAndGet(error.code().ordinal());
        }
    }

    Map<String, Metrics.MethodMetrics> snapshot() {
        Map<String, Metrics.MethodMetrics> snapshot = new TreeMap<>();
        for (int index = 0; index < methods.length(); index++) {
            MethodRecord record = methods.get(index);
            if (record == null) {
                continue;
            }
            Map<ErrorCode, Long> errors = new EnumMap<>(ErrorCode.class);
            for (ErrorCode code : ErrorCode.values()) {
                long number = record.errors.get(code.ordinal());
                if (number > 0) {
                    errors.put(code, number);
                }
            }
            Histogram.Quantiles quantiles = record.latencies.quantiles(0.5, 0.99, 0.999);
            List<Duration> ends = new ArrayList<>();
            for (long end : quantiles.ends()) {
                ends.add(Duration.ofNanos(end));
            }
            snapshot.put(
                    Method.all().get(index).name(),
                    new Metrics.MethodMetrics(quantiles.count(), errors, ends.get(0), ends.get(1), ends.get(2)));
        }
        return snapshot;
    }
}
