using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>The metadata that all calls of one client object share.</summary>
    internal sealed class Scope
    {
        public Scope(string cache, string? token)
        {
            Cache = cache;
            Token = token;
        }

        /// <summary>The name of the cache, or an empty string for calls on no cache.</summary>
        public string Cache { get; }

        public string? Token { get; }

        /// <summary>False for checks of the client itself.</summary>
        public bool IsOfUser { get; set; } = true;
    }

    /// <summary>One handler of HTTP/2, which has one connection, and the requests on it.</summary>
    internal sealed class Transport : IDisposable
    {
        private static readonly MediaTypeHeaderValue GrpcType = new MediaTypeHeaderValue("application/grpc");
        private static readonly string UserAgent =
            "gannet-dotnet/" + typeof(Transport).Assembly.GetName().Version?.ToString(3);

        // The unit "m" of the protocol allows eight digits.
        private const long TimeoutMsMax = 99_999_999;

        private readonly HttpMessageInvoker invoker;
        private readonly CancellationTokenSource broken = new CancellationTokenSource();
        private readonly Target target;
        private readonly int messageBytesMax;
        private readonly long created = Stopwatch.GetTimestamp();
        private long lastReply;
        private TimeoutText timeoutText = new TimeoutText(-1);

        public Transport(Target target, Configuration configuration)
        {
            this.target = target;
            messageBytesMax = configuration.MessageBytesMax;
            invoker = new HttpMessageInvoker(Handlers.Create(target, configuration));
        }

        /// <summary>Cancelled when the client gives up the connection. <see cref="Cause"/> is the reason.</summary>
        public CancellationToken Broken => broken.Token;

        public string Cause { get; private set; } = string.Empty;

        /// <summary>The time of the latest reply, in ticks of <see cref="Stopwatch"/>.</summary>
        public long LastReply => Volatile.Read(ref lastReply);

        /// <summary>Ends all requests of the connection, and closes it.</summary>
        public void Break(string cause)
        {
            Cause = cause;
            broken.Cancel();
            invoker.Dispose();
        }

        public void Dispose() => Break("the client was disposed of");

        /// <summary>
        /// Sends one request and awaits its replies. <paramref name="remainingMs"/> tells the server how long the
        /// client waits. Throws OperationCanceledException if <paramref name="cancellation"/> is cancelled first.
        /// </summary>
        public async ValueTask<Outcome> SendAsync(
            Uri uri, byte[] frame, Scope scope, long remainingMs, int expected, CancellationToken cancellation)
        {
            try
            {
                using var request = RequestOf(uri, frame, scope, remainingMs);
                using var response = await invoker.SendAsync(request, cancellation).ConfigureAwait(false);
                NoteReply();
                if (response.StatusCode != HttpStatusCode.OK)
                {
                    return OfOtherProtocol(response);
                }
                using var stream = await response.Content.ReadAsStreamAsync().ConfigureAwait(false);
                using var replies = new Replies(messageBytesMax);
                await replies.ReadAsync(stream, cancellation).ConfigureAwait(false);
                return OutcomeOf(response, replies, expected);
            }
            catch (Exception exception) when (IsOfNetwork(exception))
            {
                // The HTTP client reports a cancellation in several ways.
                cancellation.ThrowIfCancellationRequested();
                return Outcome.Broken(exception.Message, CauseOf(exception), LastReply != 0);
            }
        }

        /// <summary>
        /// Begins a call whose server sends replies until one side ends it. Returns null and the failure if the
        /// server does not begin a response. Throws OperationCanceledException if <paramref name="cancellation"/> is
        /// cancelled first.
        /// </summary>
        public async ValueTask<(ResponseBody? Body, Outcome Failure)> BeginAsync(
            Uri uri, byte[] frame, Scope scope, CancellationToken cancellation)
        {
            HttpResponseMessage? response = null;
            try
            {
                using var request = RequestOf(uri, frame, scope, null);
                response = await invoker.SendAsync(request, cancellation).ConfigureAwait(false);
                NoteReply();
                if (response.StatusCode != HttpStatusCode.OK)
                {
                    using (response)
                    {
                        return (null, OfOtherProtocol(response));
                    }
                }
                var stream = await response.Content.ReadAsStreamAsync().ConfigureAwait(false);
                return (new ResponseBody(this, response, stream, new Replies(messageBytesMax)), default);
            }
            catch (Exception exception) when (IsOfNetwork(exception))
            {
                response?.Dispose();
                cancellation.ThrowIfCancellationRequested();
                return (null, Outcome.Broken(exception.Message, CauseOf(exception), LastReply != 0));
            }
        }

        /// <summary>Notes that the connection has delivered bytes.</summary>
        private void NoteReply() => Volatile.Write(ref lastReply, Stopwatch.GetTimestamp());

        /// <summary>The replies of a call that has begun.</summary>
        internal sealed class ResponseBody : IDisposable
        {
            private readonly Transport transport;
            private readonly HttpResponseMessage response;
            private readonly Stream stream;
            private readonly Replies replies;
            private int taken;
            private bool isOver;

            public ResponseBody(Transport transport, HttpResponseMessage response, Stream stream, Replies replies)
            {
                this.transport = transport;
                this.response = response;
                this.stream = stream;
                this.replies = replies;
            }

            /// <summary>
            /// Reads the next reply, or the outcome after the last one: <see cref="GrpcStatus.Ok"/> if the server has
            /// ended the call without an error. Throws OperationCanceledException.
            /// </summary>
            public async ValueTask<(ReadOnlyMemory<byte>? Reply, Outcome End)> ReadAsync(CancellationToken cancellation)
            {
                try
                {
                    while (taken == replies.Messages.Count)
                    {
                        if (isOver)
                        {
                            return (null, FailureOf(response, replies) ?? Outcome.Of(replies.Messages));
                        }
                        taken = 0;
                        isOver = !await replies.ReadNextAsync(stream, cancellation).ConfigureAwait(false);
                        transport.NoteReply();
                    }
                    return (replies.Messages[taken++], default);
                }
                catch (Exception exception) when (IsOfNetwork(exception))
                {
                    cancellation.ThrowIfCancellationRequested();
                    return (null, Outcome.Broken(exception.Message, exception, true));
                }
            }

            /// <summary>Ends the call. No read may be in progress.</summary>
            public void Dispose()
            {
                stream.Dispose();
                response.Dispose();
                replies.Dispose();
            }
        }

        /// <summary>The beginning of the details if the port is that of another protocol.</summary>
        public const string NotGrpc = "the reply is not of gRPC";

        /// <summary>
        /// Returns the cause of a failure. The HTTP client reports a server that closes a new connection as a
        /// cancellation now and then, which otherwise stands for the end of the time for connecting.
        /// </summary>
        private Exception CauseOf(Exception exception)
        {
            if (LastReply != 0 || Clock.Since(created) >= target.ConnectTimeout * 0.9)
            {
                return exception;
            }
            for (Exception? each = exception; each != null; each = each.InnerException)
            {
                if (each is OperationCanceledException)
                {
                    return new IOException("the server closed the connection before its first reply");
                }
            }
            return exception;
        }

        private static bool IsOfNetwork(Exception exception) =>
            exception is HttpRequestException || exception is IOException || exception is SocketException
            || exception is AuthenticationException || exception is ObjectDisposedException
            || exception is OperationCanceledException;

        /// <summary>Without <paramref name="remainingMs"/>, the call has no deadline.</summary>
        private HttpRequestMessage RequestOf(Uri uri, byte[] frame, Scope scope, long? remainingMs)
        {
            // Of all contents, only this one and its relatives let the HTTP client send head and body in one write.
            var content = new ByteArrayContent(frame);
            content.Headers.ContentType = GrpcType;
            var request = new HttpRequestMessage(HttpMethod.Post, uri) { Content = content };
            Handlers.RequireHttp2(request);
            var headers = request.Headers;
            headers.TryAddWithoutValidation("te", "trailers");
            if (remainingMs is long ms)
            {
                headers.TryAddWithoutValidation("grpc-timeout", TimeoutOf(ms));
            }
            headers.TryAddWithoutValidation("user-agent", UserAgent);
            if (scope.Cache.Length > 0)
            {
                headers.TryAddWithoutValidation("cache", scope.Cache);
            }
            if (scope.Token != null)
            {
                headers.TryAddWithoutValidation("authorization", scope.Token);
            }
            if (target.Metadata.Count > 0 && scope.IsOfUser)
            {
                foreach (var (name, value) in target.Metadata)
                {
                    headers.TryAddWithoutValidation(name, value);
                }
            }
            return request;
        }

        /// <summary>Returns the text of a timeout. Most calls have that of the one before.</summary>
        private string TimeoutOf(long remainingMs)
        {
            var latest = timeoutText;
            if (latest.Ms != remainingMs)
            {
                timeoutText = latest = new TimeoutText(remainingMs);
            }
            return latest.Text;
        }

        private static Outcome OutcomeOf(HttpResponseMessage response, Replies replies, int expected) =>
            FailureOf(response, replies) is Outcome failure ? failure
                : replies.Messages.Count == expected ? Outcome.Of(replies.Messages)
                : Outcome.Failed(
                    GrpcStatus.Internal,
                    $"{replies.Messages.Count} replies arrived instead of {expected}; "
                    + "use a server and a client of one version");

        /// <summary>Returns the outcome of a response that has ended with an error, or null.</summary>
        private static Outcome? FailureOf(HttpResponseMessage response, Replies replies)
        {
            if (replies.Problem != null)
            {
                return !IsGrpc(response) ? OfOtherProtocol(response)
                    : Outcome.Failed(
                        replies.IsTooLong ? GrpcStatus.ResourceExhausted : GrpcStatus.Internal, replies.Problem);
            }
            if (!Find(response.TrailingHeaders, "grpc-status", out var text) && !Find(
                response.Headers, "grpc-status", out text))
            {
                return IsGrpc(response)
                    ? Outcome.Broken("the connection was closed within a reply", null, true)
                    : OfOtherProtocol(response);
            }
            if (!int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out var status))
            {
                return Outcome.Failed(GrpcStatus.Unknown, $"the status '{text}' is no number");
            }
            if (status != GrpcStatus.Ok)
            {
                if (!Find(response.TrailingHeaders, "grpc-message", out var message))
                {
                    Find(response.Headers, "grpc-message", out message);
                }
                return Outcome.Failed(status, Uri.UnescapeDataString(message));
            }
            return null;
        }

        // Reading the type costs more than the rest of a reply, so that only those are checked that have a problem.
        private static bool IsGrpc(HttpResponseMessage response) =>
            response.Content.Headers.ContentType?.MediaType == GrpcType.MediaType;

        private static Outcome OfOtherProtocol(HttpResponseMessage response) =>
            Outcome.Broken($"{NotGrpc}: status {(int)response.StatusCode} of HTTP", null, false);

        private static bool Find(HttpHeaders headers, string name, out string value)
        {
            value = string.Empty;
            if (!headers.TryGetValues(name, out var values))
            {
                return false;
            }
            foreach (var each in values)
            {
                value = each;
                return true;
            }
            return false;
        }

        private sealed class TimeoutText
        {
            public TimeoutText(long ms)
            {
                Ms = ms;
                Text = Math.Min(TimeoutMsMax, ms).ToString(CultureInfo.InvariantCulture) + "m";
            }

            public long Ms { get; }

            public string Text { get; }
        }
    }
}
