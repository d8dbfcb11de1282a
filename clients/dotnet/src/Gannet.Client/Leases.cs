using System;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    /// <summary>
    /// Leases of one cache: of all clients that miss a value, or find an old one, one computes it.
    /// <code>
    ///     GetAsync -> Hit                       the value is current
    ///              -> Won  -> SetAsync(token)   this client computes the value
    ///              -> Wait                      another client computes it: use the old value, or ask again
    /// </code>
    /// </summary>
    public sealed class Leases
    {
        private static readonly TimeSpan WaitMin = TimeSpan.FromMilliseconds(5);
        private static readonly TimeSpan WaitMax = TimeSpan.FromMilliseconds(100);

        private readonly Caller caller;
        private readonly Func<TimeSpan?, ulong> ttlOf;

        internal Leases(Caller caller, Func<TimeSpan?, ulong> ttlOf)
        {
            this.caller = caller;
            this.ttlOf = ttlOf;
        }

        /// <summary>Returns the value, or the lease to compute it, or that another client has the lease.</summary>
        /// <param name="key">The key.</param>
        /// <param name="recache">
        /// A value that expires within this time is computed again by one client; none is if it is null.
        /// </param>
        /// <param name="lease">
        /// The time after which another client gets the lease; 10 s if it is null.
        /// </param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a lease, a wait or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A time is below 1 ms.</exception>
        public Task<LeaseResult> GetAsync(
            Bytes key,
            TimeSpan? recache = null,
            TimeSpan? lease = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.LeaseGet,
                new LeaseGetRequest
                {
                    Key = key,
                    RecacheMs = Times.OptionalMs(nameof(recache), recache),
                    LeaseMs = Times.OptionalMs(nameof(lease), lease),
                },
                deadline,
                cancellationToken);

        /// <summary>
        /// Stores the value of a lease. If the value was changed or marked stale since the lease was won, the new one
        /// is stale too, so that one client computes it again.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="token">The token of <see cref="LeaseResult.Won"/>.</param>
        /// <param name="value">The value.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>Stored; not stored if the item was deleted or the lease has ended; or an error.</returns>
        public Task<ConditionalSetResult> SetAsync(
            Bytes key,
            ulong token,
            Bytes value,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.LeaseSet,
                new LeaseSetRequest { Key = key, Token = token, Value = value, TtlMs = ttlOf(ttl) },
                deadline,
                cancellationToken);

        /// <summary>
        /// Marks a value stale: clients get it as the old value until one of them has computed it again.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="ttl">The time after which the old value is gone; its own time to live if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, a miss if there is no value, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">The time is below 1 ms.</exception>
        public Task<FoundResult> MarkStaleAsync(
            Bytes key,
            TimeSpan? ttl = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.LeaseStale,
                new LeaseStaleRequest { Key = key, TtlMs = Times.OptionalMs(nameof(ttl), ttl) },
                deadline,
                cancellationToken);

        /// <summary>
        /// Returns the value of a key. If it is missing or old, one of all clients computes and stores it. The others
        /// get the old value, or wait for the new one until their deadline. If <paramref name="compute"/> throws,
        /// another client gets the lease when it ends. A computed value that cannot be stored is returned nevertheless.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="compute">Computes the value. Its time does not count against the deadline.</param>
        /// <param name="ttl">The time to live; the default of the client if it is null.</param>
        /// <param name="acceptOld">False to wait for the new value although there is an old one.</param>
        /// <param name="recache">
        /// A value that expires within this time is computed again by one client; none is if it is null.
        /// </param>
        /// <param name="lease">The time after which another client gets the lease; 10 s if it is null.</param>
        /// <param name="deadline">
        /// The time for all calls and waits together; that of the configuration if it is null.
        /// </param>
        /// <param name="cancellationToken">Cancels the call. It is passed to <paramref name="compute"/>.</param>
        /// <returns>A hit, a miss if no other client has computed the value in time, or an error.</returns>
        /// <exception cref="ArgumentOutOfRangeException">A time is below 1 ms.</exception>
        public async Task<GetResult> GetOrComputeAsync(
            Bytes key,
            Func<CancellationToken, Task<Bytes>> compute,
            TimeSpan? ttl = null,
            bool acceptOld = true,
            TimeSpan? recache = null,
            TimeSpan? lease = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            _ = compute ?? throw new ArgumentNullException(nameof(compute));
            var limit = caller.Engine.LimitOf(deadline);
            var remaining = limit;
            var started = System.Diagnostics.Stopwatch.GetTimestamp();
            for (var wait = WaitMin; ; wait = Times.Least(WaitMax, wait * 2))
            {
                var found = await GetAsync(key, recache, lease, remaining, cancellationToken).ConfigureAwait(false);
                var left = limit - Clock.Since(started);
                switch (found)
                {
                    case LeaseResult.Hit hit:
                        return new GetResult.Hit(hit.ValueBytes);
                    case LeaseResult.Error late when wait > WaitMin && IsLate(late.Code):
                        return GetResult.Miss.Instance;
                    case LeaseResult.Error error:
                        return new GetResult.Error(error.Details);
                    case LeaseResult.Won won:
                        var value = await compute(cancellationToken).ConfigureAwait(false);
                        left = Times.NotNegative(left);
                        await SetAsync(key, won.Token, value, ttl, left, cancellationToken).ConfigureAwait(false);
                        return new GetResult.Hit(value.ToArray());
                    case LeaseResult.Wait old when acceptOld && old.OldBytes is ReadOnlyMemory<byte> bytes:
                        return new GetResult.Hit(bytes);
                }
                if (wait >= left)
                {
                    return GetResult.Miss.Instance;
                }
                await Task.Delay(wait, cancellationToken).OrCancelled(cancellationToken).ConfigureAwait(false);
                remaining = Times.NotNegative(limit - Clock.Since(started));
            }
        }

        private static bool IsLate(ErrorCode code) =>
            code == ErrorCode.Timeout || code == ErrorCode.ClientQueueTimeout;
    }

    /// <summary>The result of a get with a lease: <c>Hit</c>, <c>Won</c>, <c>Wait</c> or <c>Error</c>.</summary>
    public abstract class LeaseResult
    {
        private protected LeaseResult()
        {
        }

        /// <summary>The value is current.</summary>
        public sealed class Hit : LeaseResult
        {
            internal Hit(ReadOnlyMemory<byte> value) => ValueBytes = value;

            /// <summary>The value. It shares the memory of the reply.</summary>
            public ReadOnlyMemory<byte> ValueBytes { get; }

            /// <summary>The value as text (UTF-8).</summary>
            public string ValueString => ValueBytes.Span.Utf8();
        }

        /// <summary>This client computes the value, and stores it with the token.</summary>
        public sealed class Won : LeaseResult
        {
            internal Won(ulong token, ReadOnlyMemory<byte>? old)
            {
                Token = token;
                OldBytes = old;
            }

            /// <summary>The token of the lease, for <see cref="Leases.SetAsync"/>.</summary>
            public ulong Token { get; }

            /// <summary>The old value, or null if there is none.</summary>
            public ReadOnlyMemory<byte>? OldBytes { get; }

            /// <summary>The old value as text (UTF-8), or null if there is none.</summary>
            public string? OldString => OldBytes?.Span.Utf8();
        }

        /// <summary>Another client computes the value.</summary>
        public sealed class Wait : LeaseResult
        {
            internal Wait(ReadOnlyMemory<byte>? old) => OldBytes = old;

            /// <summary>The old value, or null if there is none.</summary>
            public ReadOnlyMemory<byte>? OldBytes { get; }

            /// <summary>The old value as text (UTF-8), or null if there is none.</summary>
            public string? OldString => OldBytes?.Span.Utf8();
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : LeaseResult, IErrorResult
        {
            internal Error(CacheError details) => Details = details;

            /// <inheritdoc/>
            public CacheError Details { get; }

            /// <inheritdoc/>
            public ErrorCode Code => Details.Code;

            /// <inheritdoc/>
            public string Message => Details.Message;
        }
    }
}
