using System;

namespace Gannet.Client
{
    /// <summary>A call that failed.</summary>
    public sealed class CacheError
    {
        internal CacheError(ErrorCode code, string message, string remedy, bool isRetryable)
        {
            Code = code;
            Message = message;
            Remedy = remedy;
            IsRetryable = isRetryable;
        }

        /// <summary>The kind of the error.</summary>
        public ErrorCode Code { get; }

        /// <summary>One sentence for people: <c>cannot VERB OBJECT: CAUSE; REMEDY</c>.</summary>
        public string Message { get; }

        /// <summary>The action that removes the cause, as at the end of <see cref="Message"/>.</summary>
        public string Remedy { get; }

        /// <summary>
        /// True if the same call may succeed later. A call that is not idempotent may have been executed.
        /// </summary>
        public bool IsRetryable { get; }

        /// <summary>Returns an exception with the message, for callers that prefer to throw.</summary>
        /// <returns>The exception, whose <see cref="CacheException.Error"/> is this error.</returns>
        public CacheException ToException() => new CacheException(this);

        /// <inheritdoc/>
        public override string ToString() => $"{Code}: {Message}";
    }

    /// <summary>An error as an exception. The library itself does not throw it.</summary>
    public sealed class CacheException : Exception
    {
        /// <summary>Creates the exception of an error.</summary>
        /// <param name="error">The error.</param>
        public CacheException(CacheError error)
            : base(error?.Message)
        {
            Error = error ?? throw new ArgumentNullException(nameof(error));
        }

        /// <summary>The error.</summary>
        public CacheError Error { get; }
    }

    /// <summary>The case <c>Error</c> of every type of results.</summary>
    public interface IErrorResult
    {
        /// <summary>The error with its remedy.</summary>
        CacheError Details { get; }

        /// <summary>The kind of the error.</summary>
        ErrorCode Code { get; }

        /// <summary>One sentence for people: <c>cannot VERB OBJECT: CAUSE; REMEDY</c>.</summary>
        string Message { get; }
    }
}
