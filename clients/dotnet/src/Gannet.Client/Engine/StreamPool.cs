using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>
    /// The connections of calls without an end: subscriptions and watches. They are apart from those of the requests,
    /// whose places they do not take. A connection is opened with the first of its streams, and closed with the last.
    /// </summary>
    internal sealed class StreamPool
    {
        /// <summary>The maximum number of connections.</summary>
        public const int ConnectionsMax = 64;

        private readonly object mutex = new object();
        private readonly List<Connection> connections = new List<Connection>();
        private readonly Target target;
        private readonly Configuration configuration;
        private readonly int streamsMax;
        private int streams;
        private bool isClosed;

        public StreamPool(Target target, Configuration configuration)
        {
            this.target = target;
            this.configuration = configuration;
            // One place is left for checks of the connection.
            streamsMax = Math.Max(1, configuration.StreamsPerConnection - 1);
        }

        /// <summary>Number of streams that are open, or are being opened.</summary>
        public int Count
        {
            get
            {
                lock (mutex)
                {
                    return streams;
                }
            }
        }

        /// <summary>
        /// Opens a stream. Returns null and the failure if the server does not begin it within the limit, or if
        /// <paramref name="cancellation"/> is cancelled.
        /// </summary>
        public async Task<(ServerStream? Stream, Outcome Failure)> OpenAsync(
            Method method, byte[] frame, Scope scope, TimeSpan limit, CancellationToken cancellation)
        {
            var connection = Acquire();
            if (connection == null)
            {
                return (null, Outcome.Failed(
                    GrpcStatus.ResourceExhausted,
                    $"{ConnectionsMax * streamsMax} streams are open, which is the maximum of a client; end some"));
            }
            CancellationTokenSource? ended = null;
            ServerStream? stream = null;
            try
            {
                using var timer = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
                timer.CancelAfter(limit);
                var opening = connection.ConnectAsync();
                if (!await opening.OrCancelled(timer.Token).ConfigureAwait(false))
                {
                    return (null, Outcome.Broken(ErrorFactory.ConnectTimeout, null, false));
                }
                var opened = await opening.ConfigureAwait(false);
                var transport = opened.Transport;
                if (transport == null)
                {
                    return (null, opened.Failure);
                }
                ended = CancellationTokenSource.CreateLinkedTokenSource(transport.Broken, cancellation);
                ended.CancelAfter(limit);
                var (body, failure) = await transport
                    .BeginAsync(target.UriOf(method), frame, scope, ended.Token)
                    .ConfigureAwait(false);
                if (body == null)
                {
                    if (failure.Exception != null)
                    {
                        connection.Suspect(transport);
                    }
                    return (null, failure);
                }
                stream = new ServerStream(this, connection, transport, body, ended, cancellation);
                return (stream, default);
            }
            catch (OperationCanceledException)
            {
                return (null, Outcome.Failed(GrpcStatus.DeadlineExceeded, string.Empty));
            }
            finally
            {
                if (stream == null)
                {
                    ended?.Dispose();
                    Release(connection);
                }
            }
        }

        /// <summary>Closes all connections.</summary>
        public void Close()
        {
            List<Connection> last;
            lock (mutex)
            {
                isClosed = true;
                last = new List<Connection>(connections);
            }
            last.ForEach(each => each.Dispose());
        }

        /// <summary>Gives the place of a stream back.</summary>
        public void Release(Connection connection)
        {
            lock (mutex)
            {
                streams--;
                if (--connection.InFlight > 0)
                {
                    return;
                }
                connections.Remove(connection);
            }
            connection.Dispose();
        }

        /// <summary>
        /// Gives no further streams to a connection that is silent. Its other streams may notice that later.
        /// </summary>
        public void Retire(Connection connection)
        {
            lock (mutex)
            {
                connections.Remove(connection);
            }
        }

        private Connection? Acquire()
        {
            lock (mutex)
            {
                var found = connections.Find(each => each.InFlight < streamsMax);
                if (found == null)
                {
                    if (connections.Count == ConnectionsMax)
                    {
                        return null;
                    }
                    found = new Connection(target, configuration);
                    connections.Add(found);
                    if (isClosed)
                    {
                        found.Dispose();
                    }
                }
                streams++;
                found.InFlight++;
                return found;
            }
        }
    }

    /// <summary>One call whose server sends replies until one side ends it.</summary>
    internal sealed class ServerStream : IDisposable
    {
        private readonly StreamPool pool;
        private readonly Connection connection;
        private readonly Transport transport;
        private readonly Transport.ResponseBody body;
        private readonly CancellationTokenSource ended;
        private readonly CancellationToken caller;
        private int isDisposed;

        public ServerStream(
            StreamPool pool,
            Connection connection,
            Transport transport,
            Transport.ResponseBody body,
            CancellationTokenSource ended,
            CancellationToken caller)
        {
            this.pool = pool;
            this.connection = connection;
            this.transport = transport;
            this.body = body;
            this.ended = ended;
            this.caller = caller;
        }

        /// <summary>
        /// Reads the next reply, or the outcome after the last one. Nothing is read from the connection before the
        /// caller asks for it, so that a slow caller holds the server back. A server that sends nothing within
        /// <paramref name="silenceMax"/> is not reached any more.
        /// </summary>
        public async ValueTask<(ReadOnlyMemory<byte>? Reply, Outcome End)> ReadAsync(TimeSpan silenceMax)
        {
            try
            {
                ended.CancelAfter(silenceMax);
                var (reply, end) = await body.ReadAsync(ended.Token).ConfigureAwait(false);
                ended.CancelAfter(Timeout.InfiniteTimeSpan);
                if (end.Exception != null)
                {
                    connection.Suspect(transport);
                }
                return (reply, end);
            }
            catch (OperationCanceledException)
            {
                var isBroken = transport.Broken.IsCancellationRequested;
                connection.Suspect(transport);
                if (!isBroken && !caller.IsCancellationRequested)
                {
                    pool.Retire(connection);
                }
                return (null, Outcome.Broken(isBroken ? transport.Cause : ErrorFactory.KeepaliveTimeout, null, true));
            }
        }

        /// <summary>Ends the call. No read may be in progress.</summary>
        public void Dispose()
        {
            if (Interlocked.Exchange(ref isDisposed, 1) == 0)
            {
                ended.Cancel();
                body.Dispose();
                ended.Dispose();
                pool.Release(connection);
            }
        }
    }
}
