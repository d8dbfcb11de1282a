using System;
using System.Collections.Generic;

namespace Gannet.Client.Engine
{
    /// <summary>Codes of gRPC that the engine names.</summary>
    internal static class GrpcStatus
    {
        public const int Ok = 0;
        public const int Cancelled = 1;
        public const int Unknown = 2;
        public const int InvalidArgument = 3;
        public const int DeadlineExceeded = 4;
        public const int NotFound = 5;
        public const int AlreadyExists = 6;
        public const int PermissionDenied = 7;
        public const int ResourceExhausted = 8;
        public const int FailedPrecondition = 9;
        public const int OutOfRange = 11;
        public const int Unimplemented = 12;
        public const int Internal = 13;
        public const int Unavailable = 14;
        public const int Unauthenticated = 16;

        /// <summary>
        /// The statuses after which the same stream would end in the same way, as in clients/streams.toml.
        /// </summary>
        public static bool IsLasting(int status) =>
            status == AlreadyExists || status == FailedPrecondition || status == InvalidArgument || status == NotFound
            || status == OutOfRange || status == PermissionDenied || status == ResourceExhausted
            || status == Unauthenticated || status == Unimplemented;
    }

    /// <summary>The end of one attempt: replies, or a status with its details.</summary>
    internal readonly struct Outcome
    {
        private Outcome(
            int status,
            string details,
            Exception? exception,
            bool isConnected,
            IReadOnlyList<ReadOnlyMemory<byte>> replies)
        {
            Status = status;
            Details = details;
            Exception = exception;
            IsConnected = isConnected;
            Replies = replies;
        }

        public int Status { get; }

        public string Details { get; }

        /// <summary>The exception of the HTTP client, or null if the server sent the status.</summary>
        public Exception? Exception { get; }

        /// <summary>False if the connection had no reply yet.</summary>
        public bool IsConnected { get; }

        public IReadOnlyList<ReadOnlyMemory<byte>> Replies { get; }

        public static Outcome Of(IReadOnlyList<ReadOnlyMemory<byte>> replies) =>
            new Outcome(GrpcStatus.Ok, string.Empty, null, true, replies);

        public static Outcome Failed(int status, string details) =>
            new Outcome(status, details, null, true, Array.Empty<ReadOnlyMemory<byte>>());

        public static Outcome Broken(string details, Exception? exception, bool isConnected) =>
            new Outcome(GrpcStatus.Unavailable, details, exception, isConnected, Array.Empty<ReadOnlyMemory<byte>>());
    }
}
