using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Gannet.Client
{
    /// <summary>A snapshot of a client's metrics. Counters are those since the client was created.</summary>
    public sealed class Metrics
    {
        internal Metrics(
            int inFlight,
            int queued,
            int connections,
            int streams,
            long resumes,
            long retries,
            long hedges,
            IReadOnlyDictionary<string, MethodMetrics> methods,
            NearCacheMetrics? nearCache)
        {
            InFlight = inFlight;
            Queued = queued;
            Connections = connections;
            Streams = streams;
            Resumes = resumes;
            NearCache = nearCache;
            Retries = retries;
            Hedges = hedges;
            Methods = methods;
        }

        /// <summary>The number of requests that were sent and whose replies are awaited.</summary>
        public int InFlight { get; }

        /// <summary>The number of requests that wait in the client's queue.</summary>
        public int Queued { get; }

        /// <summary>The number of connections that requests use at most.</summary>
        public int Connections { get; }

        /// <summary>
        /// The number of open subscriptions and watches. They are not in flight, and have connections of their own.
        /// </summary>
        public int Streams { get; }

        /// <summary>The number of times that a subscription or watch was continued on a new stream.</summary>
        public long Resumes { get; }

        /// <summary>The metrics of the near cache, or null without one.</summary>
        public NearCacheMetrics? NearCache { get; }

        /// <summary>The number of repeated requests.</summary>
        public long Retries { get; }

        /// <summary>The number of requests that were sent a second time because their reply was slow.</summary>
        public long Hedges { get; }

        /// <summary>
        /// Calls and latencies by the name of the call in the schema. Empty unless the configuration enables metrics.
        /// </summary>
        public IReadOnlyDictionary<string, MethodMetrics> Methods { get; }
    }

    /// <summary>The calls of one method so far.</summary>
    public sealed class MethodMetrics
    {
        internal MethodMetrics(Histogram latencies, IReadOnlyDictionary<ErrorCode, long> errors)
        {
            Calls = latencies.Count;
            Errors = errors;
            P50 = Time(latencies.QuantileNs(0.5));
            P99 = Time(latencies.QuantileNs(0.99));
            P999 = Time(latencies.QuantileNs(0.999));
        }

        /// <summary>The number of calls.</summary>
        public long Calls { get; }

        /// <summary>The number of failed calls by their code.</summary>
        public IReadOnlyDictionary<ErrorCode, long> Errors { get; }

        /// <summary>The median of the latencies.</summary>
        public TimeSpan P50 { get; }

        /// <summary>The 99th percentile of the latencies.</summary>
        public TimeSpan P99 { get; }

        /// <summary>The 99.9th percentile of the latencies.</summary>
        public TimeSpan P999 { get; }

        private static TimeSpan Time(long nanoseconds) => TimeSpan.FromTicks(nanoseconds / 100);
    }

    /// <summary>
    /// Latencies in nanoseconds, in buckets of at most 1/64 of their value. A value below 64 has a bucket of its own.
    /// Larger ones have 64 buckets for each power of two:
    /// <code>64..127 in steps of 1, 128..255 in steps of 2, 256..511 in steps of 4, ...</code>
    /// The memory is fixed: values of 2^40 ns (18 minutes) and more share the last bucket. Threads may add at once.
    /// </summary>
    internal sealed class Histogram
    {
        private const int StepsBits = 6;
        private const int ValueBitsMax = 40;
        private readonly long[] buckets = new long[(ValueBitsMax - StepsBits + 1) << StepsBits];

        /// <summary>Number of values.</summary>
        public long Count => buckets.Sum();

        public void Record(long value)
        {
            var rest = (ulong)Math.Max(0, value);
            var shift = 0;
            for (; rest >= 2 << StepsBits; rest >>= 1)
            {
                shift++;
            }
            var at = (shift << StepsBits) + (int)rest;
            Interlocked.Increment(ref buckets[Math.Min(at, buckets.Length - 1)]);
        }

        /// <summary>
        /// Returns the upper end of the bucket below which a share of the values are, or 0 without values.
        /// </summary>
        public long QuantileNs(double share)
        {
            var wanted = share * Count;
            double passed = 0;
            for (var at = 0; at < buckets.Length; at++)
            {
                passed += buckets[at];
                if (buckets[at] > 0 && passed >= wanted)
                {
                    var shift = Math.Max(0, (at >> StepsBits) - 1);
                    return ((long)(at - (shift << StepsBits) + 1) << shift) - 1;
                }
            }
            return 0;
        }
    }

    /// <summary>
    /// Collects the metrics of one client. Its memory is bounded by the number of calls in the schema.
    /// </summary>
    internal sealed class Recorder
    {
        private static readonly int Codes = Enum.GetValues(typeof(ErrorCode)).Length;

        private readonly ConcurrentDictionary<string, (Histogram Latencies, long[] Errors)> methods =
            new ConcurrentDictionary<string, (Histogram, long[])>();

        /// <summary>Adds one call that has ended.</summary>
        public void Record(string method, TimeSpan duration, CacheError? error)
        {
            var (latencies, errors) = methods.GetOrAdd(method, _ => (new Histogram(), new long[Codes]));
            latencies.Record(duration.Ticks * 100);
            if (error != null)
            {
                Interlocked.Increment(ref errors[(int)error.Code]);
            }
        }

        /// <summary>Returns the metrics of each method that was called.</summary>
        public IReadOnlyDictionary<string, MethodMetrics> Snapshot() => methods.ToDictionary(
            each => each.Key,
            each => new MethodMetrics(
                each.Value.Latencies,
                Enumerable.Range(0, Codes).Where(code => each.Value.Errors[code] > 0)
                    .ToDictionary(code => (ErrorCode)code, code => each.Value.Errors[code])));
    }
}
