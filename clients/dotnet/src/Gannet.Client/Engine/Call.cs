using System;
using System.Collections.Generic;
using Gannet.Client.Protocol;

namespace Gannet.Client.Engine
{
    /// <summary>One call of the schema, and the result that it makes of replies.</summary>
    internal abstract class Call
    {
        protected Call(Method method, bool isIdempotent, bool isHedged)
        {
            Method = method;
            IsIdempotent = isIdempotent;
            IsHedged = isHedged;
        }

        public Method Method { get; }

        public string Name => Method.Name;

        /// <summary>True if the call may be repeated after a failure.</summary>
        public bool IsIdempotent { get; }

        /// <summary>True if a slow request may be sent a second time.</summary>
        public bool IsHedged { get; }
    }

    /// <summary>A call with the type of its results.</summary>
    internal sealed class Call<TResult> : Call
    {
        private readonly Func<IReadOnlyList<ReadOnlyMemory<byte>>, TResult> parse;
        private readonly Func<CacheError, TResult> fail;

        public Call(
            Method method,
            Func<IReadOnlyList<ReadOnlyMemory<byte>>, TResult> parse,
            Func<CacheError, TResult> fail,
            bool isIdempotent,
            bool isHedged = false)
            : base(method, isIdempotent, isHedged)
        {
            this.parse = parse;
            this.fail = fail;
        }

        /// <summary>Returns a form of the call that reads its replies in another way.</summary>
        public Call<TResult> With(Func<IReadOnlyList<ReadOnlyMemory<byte>>, TResult> reading) =>
            new Call<TResult>(Method, reading, fail, IsIdempotent, IsHedged);

        /// <summary>Returns the result of all replies. Throws <see cref="BadReplyException"/>.</summary>
        public TResult Parse(IReadOnlyList<ReadOnlyMemory<byte>> replies) => parse(replies);

        /// <summary>Returns the result of an error.</summary>
        public TResult Fail(CacheError error) => fail(error);
    }
}
