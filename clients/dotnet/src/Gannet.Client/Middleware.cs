using System;

namespace Gannet.Client
{
    /// <summary>
    /// Code of the user that runs before and after each call. An exception of it reaches the caller of the call.
    /// Several threads may run it at once.
    /// </summary>
    public abstract class Middleware
    {
        /// <summary>Runs when a call begins, before it waits in the client's queue.</summary>
        /// <param name="call">The call.</param>
        public virtual void Before(CallStart call)
        {
        }

        /// <summary>Runs when a call has ended. Its place in flight is already free.</summary>
        /// <param name="call">The call.</param>
        public virtual void After(CallEnd call)
        {
        }
    }

    /// <summary>A call that begins.</summary>
    public sealed class CallStart
    {
        internal CallStart(string method, string cache, int requestBytes)
        {
            Method = method;
            Cache = cache;
            RequestBytes = requestBytes;
        }

        /// <summary>The name of the call in the schema, such as <c>Get</c>.</summary>
        public string Method { get; }

        /// <summary>The name of the cache, or an empty string for calls on no cache.</summary>
        public string Cache { get; }

        /// <summary>The size of the request in bytes.</summary>
        public int RequestBytes { get; }
    }

    /// <summary>A call that has ended.</summary>
    public sealed class CallEnd
    {
        internal CallEnd(
            CallStart start, CacheError? error, TimeSpan duration, TimeSpan queued, int retries, bool hedged)
        {
            Method = start.Method;
            Cache = start.Cache;
            Error = error;
            Duration = duration;
            Queued = queued;
            Retries = retries;
            IsHedged = hedged;
        }

        /// <summary>The name of the call in the schema, such as <c>Get</c>.</summary>
        public string Method { get; }

        /// <summary>The name of the cache, or an empty string for calls on no cache.</summary>
        public string Cache { get; }

        /// <summary>The error, or null if there is none.</summary>
        public CacheError? Error { get; }

        /// <summary>The time from the start of the call to its result, with the wait in the client's queue.</summary>
        public TimeSpan Duration { get; }

        /// <summary>The time in the client's queue.</summary>
        public TimeSpan Queued { get; }

        /// <summary>The number of times that the request was repeated after a failure.</summary>
        public int Retries { get; }

        /// <summary>True if the request was sent a second time because its reply was slow.</summary>
        public bool IsHedged { get; }
    }
}
