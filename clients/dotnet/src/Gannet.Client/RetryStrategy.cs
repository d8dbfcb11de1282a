using System;

namespace Gannet.Client
{
    /// <summary>Decides when a failed request is repeated. A class of your own may extend it.</summary>
    public abstract class RetryStrategy
    {
        /// <summary>The time that one attempt may take; null for the rest of the call's deadline.</summary>
        public virtual TimeSpan? ResponseTimeout => null;

        /// <summary>Returns the delay before the next retry, or null if there is none.</summary>
        /// <param name="retries">The number of retries of this call so far.</param>
        /// <param name="previous">The delay before the latest of them, or zero.</param>
        /// <returns>The delay, or null.</returns>
        public abstract TimeSpan? Delay(int retries, TimeSpan previous);

        internal static TimeSpan RequireAtLeast(string name, TimeSpan value, TimeSpan least) => value >= least
            ? value
            : throw new ArgumentOutOfRangeException(
                name, $"cannot use {name} {value}: it is too low; give at least {least}");
    }

    /// <summary>Never repeats a request.</summary>
    public sealed class NoRetry : RetryStrategy
    {
        /// <inheritdoc/>
        public override TimeSpan? Delay(int retries, TimeSpan previous) => null;
    }

    /// <summary>Repeats a failed request at once, a fixed number of times at most.</summary>
    public sealed class FixedCount : RetryStrategy
    {
        /// <summary>Creates the strategy.</summary>
        /// <param name="count">The maximum number of retries of one call.</param>
        /// <exception cref="ArgumentOutOfRangeException">The count is below 0.</exception>
        public FixedCount(int count = 3)
        {
            Count = count >= 0
                ? count
                : throw new ArgumentOutOfRangeException(
                    nameof(count), $"cannot use count {count}: it is too low; give at least 0");
        }

        /// <summary>The maximum number of retries of one call.</summary>
        public int Count { get; }

        /// <inheritdoc/>
        public override TimeSpan? Delay(int retries, TimeSpan previous) =>
            retries < Count ? TimeSpan.Zero : (TimeSpan?)null;
    }

    /// <summary>
    /// Repeats a failed request after a fixed delay, until the deadline of the call. An attempt without a reply within
    /// the response timeout is given up and repeated: a server that hangs costs this time, and not the whole deadline.
    /// The delay varies by 10 % in both directions.
    /// </summary>
    public sealed class FixedTimeout : RetryStrategy
    {
        /// <summary>Creates the strategy.</summary>
        /// <param name="retryDelay">The delay before each retry; 100 ms if it is null.</param>
        /// <param name="responseTimeout">The time that one attempt may take; 1 s if it is null.</param>
        /// <exception cref="ArgumentOutOfRangeException">A time is negative, or the timeout below 1 ms.</exception>
        public FixedTimeout(TimeSpan? retryDelay = null, TimeSpan? responseTimeout = null)
        {
            RetryDelay = RequireAtLeast(
                nameof(retryDelay), retryDelay ?? TimeSpan.FromMilliseconds(100), TimeSpan.Zero);
            ResponseTimeout = RequireAtLeast(
                nameof(responseTimeout), responseTimeout ?? TimeSpan.FromSeconds(1), TimeSpan.FromMilliseconds(1));
        }

        /// <summary>The delay before each retry.</summary>
        public TimeSpan RetryDelay { get; }

        /// <inheritdoc/>
        public override TimeSpan? ResponseTimeout { get; }

        /// <inheritdoc/>
        public override TimeSpan? Delay(int retries, TimeSpan previous) => RetryDelay * (0.9 + (0.2 * Jitter.Next()));
    }

    /// <summary>
    /// Repeats a failed request after delays that grow, until the deadline of the call. Each delay is a random time
    /// between the initial delay and three times the previous delay (decorrelated jitter). Clients that failed at the
    /// same instant therefore do not return at the same instant. Timers round a delay up to whole milliseconds.
    /// </summary>
    public sealed class ExponentialBackoff : RetryStrategy
    {
        /// <summary>Creates the strategy.</summary>
        /// <param name="initialDelay">The shortest delay; 0.5 ms if it is null.</param>
        /// <param name="maxDelay">The longest delay; 1 s if it is null.</param>
        /// <exception cref="ArgumentOutOfRangeException">
        /// The initial delay is not positive, or above the longest.
        /// </exception>
        public ExponentialBackoff(TimeSpan? initialDelay = null, TimeSpan? maxDelay = null)
        {
            InitialDelay = RequireAtLeast(
                nameof(initialDelay), initialDelay ?? TimeSpan.FromTicks(5000), TimeSpan.FromTicks(1));
            MaxDelay = RequireAtLeast(nameof(maxDelay), maxDelay ?? TimeSpan.FromSeconds(1), InitialDelay);
        }

        /// <summary>The shortest delay.</summary>
        public TimeSpan InitialDelay { get; }

        /// <summary>The longest delay.</summary>
        public TimeSpan MaxDelay { get; }

        /// <inheritdoc/>
        public override TimeSpan? Delay(int retries, TimeSpan previous)
        {
            var longest = previous * 3 > InitialDelay ? previous * 3 : InitialDelay;
            var delay = InitialDelay + ((longest - InitialDelay) * Jitter.Next());
            return delay < MaxDelay ? delay : MaxDelay;
        }
    }

    /// <summary>
    /// The bound of retries and hedges together: a percentage of the requests, plus a burst. It is a token bucket that
    /// holds at most the burst. Each request adds its share of a token, and each retry or hedge takes one. Without a
    /// token, a failed request is not repeated, and a slow one is not hedged.
    /// </summary>
    public sealed class RetryBudget
    {
        /// <summary>Creates the bound.</summary>
        /// <param name="percent">The share of the requests.</param>
        /// <param name="burst">The number of retries that are possible at any time.</param>
        /// <exception cref="ArgumentOutOfRangeException">An argument is negative.</exception>
        public RetryBudget(double percent = 10, double burst = 10)
        {
            Percent = percent >= 0 ? percent : throw Wrong(nameof(percent), percent);
            Burst = burst >= 0 ? burst : throw Wrong(nameof(burst), burst);
        }

        /// <summary>The share of the requests.</summary>
        public double Percent { get; }

        /// <summary>The number of retries that are possible at any time.</summary>
        public double Burst { get; }

        private static ArgumentOutOfRangeException Wrong(string name, double value) =>
            new ArgumentOutOfRangeException(name, $"cannot use {name} {value}: it is too low; give at least 0");
    }

    /// <summary>The state of a <see cref="RetryBudget"/>.</summary>
    internal sealed class TokenBucket
    {
        private readonly object mutex = new object();
        private readonly double burst;
        private readonly double share;
        private double tokens;

        public TokenBucket(RetryBudget budget)
        {
            burst = budget.Burst;
            share = budget.Percent / 100;
            tokens = burst;
        }

        /// <summary>Adds the share of one request.</summary>
        public void Add()
        {
            // A full bucket is the usual case, and needs no lock: a stale value only loses a share.
            if (tokens >= burst)
            {
                return;
            }
            lock (mutex)
            {
                tokens = Math.Min(burst, tokens + share);
            }
        }

        /// <summary>Takes a token, and returns true if there was one.</summary>
        public bool Take()
        {
            lock (mutex)
            {
                // The sum of many shares is inexact: ten of 0.1 make slightly less than 1.
                if (tokens < 1 - 1e-9)
                {
                    return false;
                }
                tokens -= 1;
                return true;
            }
        }
    }

    /// <summary>Random numbers for all threads.</summary>
    internal static class Jitter
    {
        private static readonly Random Source = new Random();

        /// <summary>Returns a number from 0 to below 1.</summary>
        public static double Next()
        {
            lock (Source)
            {
                return Source.NextDouble();
            }
        }
    }
}
