using System;
using System.Collections.Generic;
using System.Threading.Tasks;

namespace Gannet.Client.Engine
{
    /// <summary>A connection as the limiter sees it.</summary>
    internal interface IStreams
    {
        /// <summary>Number of requests in flight on the connection. The limiter's lock guards it.</summary>
        int InFlight { get; set; }
    }

    /// <summary>A request that waits in the queue. The links belong to the limiter.</summary>
    internal sealed class Waiter<TConnection>
        where TConnection : class, IStreams
    {
        private readonly TaskCompletionSource<TConnection?> granted =
            new TaskCompletionSource<TConnection?>(TaskCreationOptions.RunContinuationsAsynchronously);

        internal Waiter<TConnection>? Previous { get; set; }

        internal Waiter<TConnection>? Next { get; set; }

        internal bool IsQueued { get; set; }

        /// <summary>
        /// A connection with a free stream, which the request releases, or null after it has left the queue.
        /// </summary>
        public Task<TConnection?> Granted => granted.Task;

        internal void Complete(TConnection? connection) => granted.SetResult(connection);
    }

    /// <summary>
    /// Bounds the requests in flight. At most as many as the queue's maximum wait, in order of arrival.
    /// Invariant: requests wait only while as many as the cap are in flight, because a released place passes to the
    /// first one. The queue is a doubly linked list, from which a cancelled request is removed in constant time.
    /// </summary>
    internal sealed class Limiter<TConnection>
        where TConnection : class, IStreams
    {
        private readonly object mutex = new object();
        private readonly IReadOnlyList<TConnection> connections;
        private readonly int requestsMax;
        private readonly int queuedMax;
        private readonly int streams;
        private Waiter<TConnection>? first;
        private Waiter<TConnection>? last;
        private int inFlight;
        private int queued;

        public Limiter(IReadOnlyList<TConnection> connections, int requestsMax, int queuedMax, int streams)
        {
            this.connections = connections;
            this.requestsMax = requestsMax;
            this.queuedMax = queuedMax;
            this.streams = streams;
        }

        /// <summary>Number of requests in flight, and of those that wait, at one instant.</summary>
        public (int InFlight, int Queued) Counts
        {
            get
            {
                lock (mutex)
                {
                    return (inFlight, queued);
                }
            }
        }

        /// <summary>
        /// Takes a place on the first connection with a free stream, which the caller releases. Without a free place,
        /// adds
        /// <paramref name="waiter"/> to the queue and returns null; it is null if the queue is full.
        /// </summary>
        public TConnection? Acquire(out Waiter<TConnection>? waiter)
        {
            waiter = null;
            lock (mutex)
            {
                if (inFlight < requestsMax)
                {
                    return Take(null);
                }
                if (queued < queuedMax)
                {
                    waiter = new Waiter<TConnection> { IsQueued = true, Previous = last };
                    if (last == null)
                    {
                        first = waiter;
                    }
                    else
                    {
                        last.Next = waiter;
                    }
                    last = waiter;
                    queued++;
                }
                return null;
            }
        }

        /// <summary>
        /// Takes a place without a wait: on another connection than this one if another has a free stream.
        /// </summary>
        public TConnection? AcquireBeside(TConnection other)
        {
            lock (mutex)
            {
                return inFlight < requestsMax ? Take(other) : null;
            }
        }

        /// <summary>Removes a request from the queue if it waits. It then gets no connection.</summary>
        public void Leave(Waiter<TConnection> waiter)
        {
            lock (mutex)
            {
                if (!waiter.IsQueued)
                {
                    return;
                }
                Remove(waiter);
            }
            waiter.Complete(null);
        }

        /// <summary>Passes a place to the first waiting request, or frees it.</summary>
        public void Release(TConnection connection)
        {
            Waiter<TConnection>? next;
            lock (mutex)
            {
                next = first;
                if (next == null)
                {
                    inFlight--;
                    connection.InFlight--;
                    return;
                }
                Remove(next);
            }
            next.Complete(connection);
        }

        private TConnection Take(TConnection? other)
        {
            TConnection? found = null;
            for (var at = 0; at < connections.Count; at++)
            {
                var each = connections[at];
                if (each.InFlight < streams && (found == null || found == other))
                {
                    found = each;
                    if (each != other)
                    {
                        break;
                    }
                }
            }
            // The connections have at least as many streams as the cap has places.
            _ = found ?? throw new InvalidOperationException("a free place without a free stream");
            inFlight++;
            found.InFlight++;
            return found;
        }

        private void Remove(Waiter<TConnection> waiter)
        {
            if (waiter.Previous == null)
            {
                first = waiter.Next;
            }
            else
            {
                waiter.Previous.Next = waiter.Next;
            }
            if (waiter.Next == null)
            {
                last = waiter.Previous;
            }
            else
            {
                waiter.Next.Previous = waiter.Previous;
            }
            waiter.Previous = waiter.Next = null;
            waiter.IsQueued = false;
            queued--;
        }
    }
}
