namespace Gannet.Client
{
    /// <summary>The kinds of errors.</summary>
    public enum ErrorCode
    {
        /// <summary>An argument is not allowed, such as an empty key.</summary>
        InvalidArgument,

        /// <summary>The cache does not exist.</summary>
        NotFoundCache,

        /// <summary>The record does not exist.</summary>
        NotFoundRecord,

        /// <summary>The cache or the record exists already.</summary>
        AlreadyExists,

        /// <summary>
        /// The item has another type, its value is not a number, or a filter is false; an edge type has another form, or
        /// a cap is reached.
        /// </summary>
        FailedPrecondition,

        /// <summary>The token is missing or wrong.</summary>
        Unauthenticated,

        /// <summary>The user of the token may not execute the call.</summary>
        PermissionDenied,

        /// <summary>A limit of the server: memory, quota, size of a message or value, number of caches.</summary>
        LimitExceeded,

        /// <summary>The record has another revision than the call requires: another client has changed it.</summary>
        Aborted,

        /// <summary>The deadline passed before a reply arrived. The server may have executed the call.</summary>
        Timeout,

        /// <summary>
        /// The deadline passed while the request waited in the client. The server did not receive it.
        /// </summary>
        ClientQueueTimeout,

        /// <summary>Too many requests wait in the client. The server did not receive this one.</summary>
        ClientQueueFull,

        /// <summary>The caller cancelled the call, or the client was disposed of.</summary>
        Cancelled,

        /// <summary>The server cannot be reached, or does not speak the protocol of the client.</summary>
        Unavailable,

        /// <summary>The server does not have the call.</summary>
        Unimplemented,

        /// <summary>The server failed, or a reply contradicts the protocol.</summary>
        Internal,

        /// <summary>Another error of the server.</summary>
        Unknown,

        /// <summary>The graph or the edge type is not declared.</summary>
        NotFoundGraph,
    }
}
