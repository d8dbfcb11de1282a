using System;
using System.Collections.Generic;
using System.Net.Sockets;
using System.Security.Authentication;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>Makes errors with the remedy of each common mistake.</summary>
    internal static class ErrorFactory
    {
        /// <summary>The details of a connection that was not opened in time.</summary>
        public const string ConnectTimeout = "connect timeout";

        /// <summary>The details of a request whose connection did not reply to a check.</summary>
        public const string KeepaliveTimeout = "keepalive timeout";

        private const string GraphService = "gannet.v1.Graph";

        // The remedy of errors of graphs that name none; the general ones are for items.
        private const string GraphLimits = "read the message, and docs/graph/README.md for the limits";

        private static readonly IReadOnlyDictionary<int, ErrorCode> Codes = new Dictionary<int, ErrorCode>
        {
            [1] = ErrorCode.Cancelled,
            [3] = ErrorCode.InvalidArgument,
            [4] = ErrorCode.Timeout,
            [5] = ErrorCode.NotFoundCache,
            [6] = ErrorCode.AlreadyExists,
            [7] = ErrorCode.PermissionDenied,
            [8] = ErrorCode.LimitExceeded,
            [9] = ErrorCode.FailedPrecondition,
            [10] = ErrorCode.Aborted,
            [11] = ErrorCode.InvalidArgument,
            [12] = ErrorCode.Unimplemented,
            [13] = ErrorCode.Internal,
            [14] = ErrorCode.Unavailable,
            [15] = ErrorCode.Internal,
            [16] = ErrorCode.Unauthenticated,
        };

        // By the first word of an error of records.
        private static readonly IReadOnlyDictionary<string, string> RecordRemedies = new Dictionary<string, string>
        {
            ["NOTFOUND"] = "create the record first, with RecordWhen.Create or RecordWhen.Always",
            ["EXISTS"] = "change the record with RecordWhen.Update or RecordWhen.Always, or use another key",
            ["REVISION"] = "read the record again, and repeat the change with its revision",
            ["FILTERED"] = "read the record, and change the filter",
            ["RECORDSET"] = "name the set that the record belongs to, or leave it out",
            ["BINTYPE"] = "pass a value of the bin's type: a long for INT, a double for FLOAT, a string for STR",
            ["BINRANGE"] = "pass a smaller number",
            ["BINVALUE"] = "pass a value of the type of the bin",
            ["BINNAME"] = "pass a name of 1 to 63 bytes",
            ["NOINDEX"] = "create the index with REC.INDEX CREATE SET BIN INT, or STR",
            ["BUILDING"] = "repeat the call when the index is complete (REC.INDEX LIST)",
            ["INDEXFULL"] = "create the index again with more memory (REC.INDEX CREATE SET BIN TYPE MEMORY BYTES)",
        };

        private static readonly HashSet<string> RecordChanges =
            new HashSet<string> { "RecordPut", "RecordAdd", "RecordAppend", "RecordTouch", "RecordDelete" };

        private static readonly (string Cause, string Remedy) NotGrpc = (
            "the server at this port does not speak gRPC",
            "pass the address of `gannet serve --grpc`, not the port of memcached, Redis or HTTP clients; "
            + "if the port uses TLS, pass tls: true");

        private static readonly (string Cause, string Remedy) NotTls = (
            "the server at this port does not use TLS", "pass tls: false, or the port that uses TLS");

        /// <summary>
        /// Returns the error of an attempt that failed. <paramref name="requestBytes"/> is the size of its message, and
        /// <paramref name="deadline"/> the time of its reply; null stands for a stream.
        /// </summary>
        public static CacheError OfOutcome(
            Outcome outcome, Method method, Target target, int requestBytes, TimeSpan? deadline)
        {
            var code = Codes.TryGetValue(outcome.Status, out var known) ? known : ErrorCode.Unknown;
            var cause = outcome.Details.Replace('\n', ' ').Trim();
            if (code == ErrorCode.NotFoundCache && !cause.StartsWith("the cache", StringComparison.Ordinal))
            {
                code = RecordChanges.Contains(method.Name) ? ErrorCode.NotFoundRecord
                    : method.Service == GraphService ? ErrorCode.NotFoundGraph
                    : code;
            }
            var remedy = method.Service == GraphService
                && (code == ErrorCode.FailedPrecondition || code == ErrorCode.LimitExceeded)
                    ? GraphLimits
                    : RemedyOf(code);
            var space = cause.IndexOf(' ', StringComparison.Ordinal);
            if (space > 0 && RecordRemedies.TryGetValue(cause.Substring(0, space), out var ofRecord))
            {
                (cause, remedy) = (cause.Substring(space + 1), ofRecord);
            }
            else if (code == ErrorCode.Unavailable)
            {
                (cause, remedy) = Unavailable(outcome, target);
            }
            else if (code == ErrorCode.Unauthenticated)
            {
                cause = target.Token == null
                    ? "the server needs a token, and none was passed"
                    : "the server does not accept the token";
            }
            else if (code == ErrorCode.Timeout)
            {
                cause = $"no reply arrived before {Named(deadline)}";
            }
            else
            {
                var semicolon = cause.IndexOf("; ", StringComparison.Ordinal);
                if (semicolon >= 0)
                {
                    // The message names the remedy, unless it names commands that the library does not have.
                    remedy = code == ErrorCode.NotFoundCache || code == ErrorCode.NotFoundGraph
                        ? remedy
                        : cause.Substring(semicolon + 2);
                    cause = cause.Substring(0, semicolon);
                }
                else if (cause.Contains("size limit exceeded", StringComparison.Ordinal))
                {
                    cause = $"{cause}, and the request has {requestBytes} bytes";
                    remedy = "store less in one item, or raise the limit by --item-max of the server";
                }
            }
            cause = cause.Length > 0 ? cause : $"status {outcome.Status} of gRPC";
            return Of(code, $"{method.Name} at {target.Address}", cause, remedy);
        }

        /// <summary>Returns the error of a call whose deadline passed before a connection was open.</summary>
        public static CacheError NoConnection(string method, Target target, TimeSpan deadline) => Of(
            ErrorCode.Timeout,
            $"{method} at {target.Address}",
            $"{Named(deadline)} passed before a connection was open",
            "raise the deadline of the configuration, or check the address, the network and the firewall");

        private static string Named(TimeSpan? deadline) =>
            deadline is TimeSpan time ? FormattableString.Invariant($"the deadline of {time.TotalMilliseconds} ms")
                : "the deadline";

        /// <summary>Returns the error of a call that the client ended.</summary>
        public static CacheError OfClient(ErrorCode code, string method, string cause, string? remedy = null) =>
            Of(code, method, cause, remedy ?? RemedyOf(code));

        /// <summary>Returns the error of a call whose request has a text that UTF-8 does not express.</summary>
        public static CacheError OfText(string method) => OfClient(
            ErrorCode.InvalidArgument,
            method,
            "a text has a lone surrogate, which UTF-8 does not express",
            "correct the text, or pass bytes");

        private static CacheError Of(ErrorCode code, string what, string cause, string remedy) =>
            new CacheError(code, $"cannot execute {what}: {cause}; {remedy}", remedy, IsRetryable(code));

        private static bool IsRetryable(ErrorCode code) =>
            code == ErrorCode.Unavailable || code == ErrorCode.Internal || code == ErrorCode.Timeout
            || code == ErrorCode.ClientQueueTimeout || code == ErrorCode.ClientQueueFull;

        private static string RemedyOf(ErrorCode code) => code switch
        {
            ErrorCode.InvalidArgument => "change the argument",
            ErrorCode.NotFoundCache => "create the cache with CreateCacheAsync, or correct its name",
            ErrorCode.NotFoundRecord => "create the record first",
            ErrorCode.NotFoundGraph => "declare the edge type with DeclareTypeAsync, or correct the names",
            ErrorCode.Aborted => "read the record again, and repeat the change",
            ErrorCode.AlreadyExists => "use the cache, or choose another name",
            ErrorCode.FailedPrecondition =>
                "use the calls of the item's type (GetItemTypeAsync returns it), or delete the item first",
            ErrorCode.Unauthenticated =>
                "pass CredentialProvider.FromString(TOKEN); the token is the password of the user default, "
                + "or USER:PASSWORD",
            ErrorCode.PermissionDenied =>
                "create a token with this permission (gannet user token, or Tokens.GenerateDisposableTokenAsync), "
                + "or grant the right to the user with ACL SETUSER",
            ErrorCode.LimitExceeded => "store less in one call, or raise the limit of the server",
            ErrorCode.Timeout => "raise the deadline of the configuration, or reduce the load of the server",
            ErrorCode.ClientQueueTimeout => "send fewer requests at once, or raise RequestsInFlightMax or the deadline",
            ErrorCode.ClientQueueFull => "send fewer requests at once, or raise RequestsQueuedMax",
            ErrorCode.Cancelled => "repeat the call if its result is still needed",
            ErrorCode.Unavailable => "repeat the call; if it fails again, check that the server runs",
            ErrorCode.Unimplemented => "use a server of the same version as the client, or newer",
            ErrorCode.Internal => "repeat the call; if it fails again, read the log of the server",
            _ => "read the log of the server",
        };

        /// <summary>
        /// Returns cause and remedy of a connection that failed, by the exceptions of the HTTP client.
        /// </summary>
        private static (string Cause, string Remedy) Unavailable(Outcome outcome, Target target)
        {
            const string Network = "check the address, the network and the firewall";
            if (outcome.Details == ConnectTimeout)
            {
                return ($"no connection was opened within {target.ConnectTimeout.TotalMilliseconds} ms", Network);
            }
            if (outcome.Details == KeepaliveTimeout)
            {
                return ("the server does not answer on its connection", Network);
            }
            if (outcome.Details.StartsWith(Transport.NotGrpc, StringComparison.Ordinal))
            {
                return NotGrpc;
            }
            var isHttp2 = false;
            for (var each = outcome.Exception; each != null; each = each.InnerException)
            {
                switch (each)
                {
                    case SocketException socket:
                        return OfSocket(socket, target) ?? Closed(outcome, target);
                    case OperationCanceledException _:
                        return (
                            $"no connection was opened within {target.ConnectTimeout.TotalMilliseconds} ms", Network);
                    case AuthenticationException authentication:
                        return OfTls(authentication);
                }
                isHttp2 |= each.GetType().Name.Contains("Protocol", StringComparison.Ordinal);
            }
            if (outcome.Exception == null && outcome.IsConnected)
            {
                // The server itself sent the status.
                return (outcome.Details, RemedyOf(ErrorCode.Unavailable));
            }
            return isHttp2 && !outcome.IsConnected && !target.UsesTls ? NotGrpc : Closed(outcome, target);
        }

        private static (string, string)? OfSocket(SocketException exception, Target target)
        {
            switch (exception.SocketErrorCode)
            {
                case SocketError.ConnectionRefused:
                    var remedy = $"start one with `gannet serve --grpc {target.Address}`, or correct the address";
                    return ("no server listens there", remedy);
                case SocketError.HostNotFound:
                case SocketError.NoData:
                case SocketError.TryAgain:
                case SocketError.NoRecovery:
                    return ("the host name is unknown", "correct it, or check DNS");
                case SocketError.TimedOut:
                case SocketError.HostUnreachable:
                case SocketError.NetworkUnreachable:
                case SocketError.HostDown:
                case SocketError.NetworkDown:
                    return (
                        $"the host does not answer ({exception.Message})",
                        "check the address, the network and the firewall");
                default:
                    return null;
            }
        }

        private static (string, string) OfTls(AuthenticationException exception)
        {
            var text = exception.ToString();
            if (text.Contains("wrong version number", StringComparison.Ordinal)
                || text.Contains("Cannot determine the frame size", StringComparison.Ordinal))
            {
                return NotTls;
            }
            if (text.Contains("certificate", StringComparison.OrdinalIgnoreCase))
            {
                return (
                    "the certificate of the server was not signed by a known CA, or names another host",
                    "pass caFile: PATH with the CA of the server, "
                    + "and an address with the host name of the certificate");
            }
            return (
                $"the TLS handshake failed ({exception.Message})", "check that the port uses TLS, and its certificate");
        }

        private static (string, string) Closed(Outcome outcome, Target target)
        {
            if (outcome.IsConnected)
            {
                return (
                    "the server closed the connection",
                    "repeat the call; if it fails again, check that the server runs, and that tls is as on its port");
            }
            if (target.UsesTls)
            {
                return NotTls;
            }
            return NotGrpc;
        }
    }
}
