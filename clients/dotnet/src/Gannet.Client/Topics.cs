using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.Client.Protocol;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    /// <summary>
    /// Topics of one cache: messages to all subscribers of a name, with sequence numbers. A topic is the channel of
    /// that name for Redis clients.
    /// </summary>
    public sealed class Topics
    {
        private readonly Caller caller;

        internal Topics(Caller caller)
        {
            this.caller = caller;
        }

        /// <summary>
        /// Publishes a message. It is not repeated after a failure, because it may have reached the subscribers.
        /// </summary>
        /// <param name="topic">The name of the topic, of 1 to 1,024 bytes.</param>
        /// <param name="value">The message: a string is published as text, and bytes are published as such.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success or an error.</returns>
        public Task<DoneResult> PublishAsync(
            string topic,
            Bytes value,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            var content = value.IsText ? new TopicValue { Text = value } : new TopicValue { Binary = value };
            return caller.Send(
                Calls.Publish, new PublishRequest { Topic = topic, Value = content }, deadline, cancellationToken);
        }

        /// <summary>
        /// Subscribes to a topic. The task ends when the server has begun the subscription. It takes no place of the
        /// requests in flight, and has connections of its own.
        /// </summary>
        /// <param name="topic">The name of the topic, of 1 to 1,024 bytes.</param>
        /// <param name="from">The first message; the next one that is published if it is null.</param>
        /// <param name="deadline">The time for the begin; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Ends the subscription at any time.</param>
        /// <returns>A subscription or an error.</returns>
        public async Task<SubscribeResult> SubscribeAsync(
            string topic,
            TopicPosition? from = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            var source = new TopicSource(topic ?? throw new ArgumentNullException(nameof(topic)), from);
            try
            {
                _ = Wire.Frame(source.Request());
            }
            catch (EncoderFallbackException)
            {
                return new SubscribeResult.Error(ErrorFactory.OfText(source.Method.Name));
            }
            var events = new EventStream<TopicEvent>(caller.Engine, source, caller.Scope, cancellationToken);
            var error = await events.BeginAsync(caller.Engine.LimitOf(deadline)).ConfigureAwait(false);
            return error == null
                ? new SubscribeResult.Subscription(events, source)
                : (SubscribeResult)new SubscribeResult.Error(error);
        }
    }

    /// <summary>The place of a message in a topic.</summary>
    public readonly struct TopicPosition : IEquatable<TopicPosition>
    {
        /// <summary>Creates a position.</summary>
        /// <param name="sequence">The number of the message within its page, from 1.</param>
        /// <param name="page">The page of the number.</param>
        public TopicPosition(ulong sequence, ulong page)
        {
            Sequence = sequence;
            Page = page;
        }

        /// <summary>The position from which a subscription gets all messages that the server has.</summary>
        public static TopicPosition Oldest => new TopicPosition(1, 0);

        /// <summary>The number of the message within its page, from 1.</summary>
        public ulong Sequence { get; }

        /// <summary>The page of the number. A topic that is created again has a later page.</summary>
        public ulong Page { get; }

        /// <inheritdoc/>
        public bool Equals(TopicPosition other) => Sequence == other.Sequence && Page == other.Page;

        /// <inheritdoc/>
        public override bool Equals(object? obj) => obj is TopicPosition other && Equals(other);

        /// <inheritdoc/>
        public override int GetHashCode() => HashCode.Combine(Sequence, Page);

        /// <inheritdoc/>
        public override string ToString() => $"{Sequence} of page {Page}";
    }

    /// <summary>
    /// An event of a subscription: <c>Item</c>, <c>Discontinuity</c>, <c>Heartbeat</c>, or <c>Error</c>, which is the
    /// last one.
    /// </summary>
    public abstract class TopicEvent
    {
        private protected TopicEvent()
        {
        }

        /// <summary>A message.</summary>
        public sealed class Item : TopicEvent
        {
            private readonly string? text;
            private readonly ReadOnlyMemory<byte> bytes;

            internal Item(ulong sequence, ulong page, string publisherId, string text)
                : this(sequence, page, publisherId) => this.text = text;

            internal Item(ulong sequence, ulong page, string publisherId, ReadOnlyMemory<byte> bytes)
                : this(sequence, page, publisherId) => this.bytes = bytes;

            private Item(ulong sequence, ulong page, string publisherId)
            {
                Sequence = sequence;
                Page = page;
                PublisherId = publisherId;
            }

            /// <summary>The number of the message within its page. The messages have consecutive numbers.</summary>
            public ulong Sequence { get; }

            /// <summary>The page of the number. A topic that is created again has a later page.</summary>
            public ulong Page { get; }

            /// <summary>The id in the token of the publisher, or an empty string.</summary>
            public string PublisherId { get; }

            /// <summary>True if the message was published as text.</summary>
            public bool IsText => text != null;

            /// <summary>The message as text (UTF-8).</summary>
            public string ValueString => text ?? bytes.Span.Utf8();

            /// <summary>The message as bytes.</summary>
            public ReadOnlyMemory<byte> ValueBytes => text == null ? bytes : Encoding.UTF8.GetBytes(text);
        }

        /// <summary>Messages are missing before the next one: the server does not have them any more.</summary>
        public sealed class Discontinuity : TopicEvent
        {
            internal Discontinuity(ulong lastSequence, ulong newSequence, ulong newPage)
            {
                LastSequence = lastSequence;
                NewSequence = newSequence;
                NewPage = newPage;
            }

            /// <summary>The number of the last message before them; 0 if it is not known.</summary>
            public ulong LastSequence { get; }

            /// <summary>The number of the next message.</summary>
            public ulong NewSequence { get; }

            /// <summary>The page of the next message.</summary>
            public ulong NewPage { get; }
        }

        /// <summary>A sign of life of the server: at the begin, and after 5 s without messages.</summary>
        public sealed class Heartbeat : TopicEvent
        {
            internal static readonly Heartbeat Instance = new Heartbeat();

            private Heartbeat()
            {
            }
        }

        /// <summary>The error with which the subscription has ended.</summary>
        public sealed class Error : TopicEvent, IErrorResult
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

    /// <summary>The result of a call that subscribes: <c>Subscription</c> or <c>Error</c>.</summary>
    public abstract class SubscribeResult
    {
        private protected SubscribeResult()
        {
        }

        /// <summary>
        /// A subscription: <c>await foreach (var each in subscription)</c>, once.
        /// <para>
        /// After a broken connection it continues behind the last message that the loop has received: with the next
        /// message, or with a discontinuity if the server does not have it any more. Before the first message it
        /// continues where it began, which the server's heartbeats name.
        /// </para>
        /// <para>
        /// The loop asks for one event at a time. A slow loop holds back the server, which keeps the last messages of a
        /// topic for it, and sends a discontinuity if these were too few.
        /// </para>
        /// <para>
        /// The loop ends, without an exception, when it is left, when the subscription or the client is disposed of,
        /// and when a token is cancelled. It also ends after an event <see cref="TopicEvent.Error"/>: the cache does
        /// not exist any more, the token has expired or lost its right, or the server refuses the request.
        /// </para>
        /// </summary>
        public sealed class Subscription : SubscribeResult, IAsyncEnumerable<TopicEvent>, IAsyncDisposable
        {
            private readonly EventStream<TopicEvent> events;
            private readonly TopicSource source;

            internal Subscription(EventStream<TopicEvent> events, TopicSource source)
            {
                this.events = events;
                this.source = source;
            }

            /// <summary>
            /// The position of the next message, for a later subscription; null if the server has named none.
            /// </summary>
            public TopicPosition? Next => source.Next;

            /// <summary>Returns the events.</summary>
            /// <param name="cancellationToken">Ends the subscription.</param>
            /// <returns>The events.</returns>
            public IAsyncEnumerator<TopicEvent> GetAsyncEnumerator(CancellationToken cancellationToken = default) =>
                EventsAsync(cancellationToken).GetAsyncEnumerator(cancellationToken);

            /// <summary>Ends the subscription, and the loop over it.</summary>
            /// <returns>A task that has ended.</returns>
            public ValueTask DisposeAsync()
            {
                events.Close();
                return default;
            }

            private async IAsyncEnumerable<TopicEvent> EventsAsync(
                [EnumeratorCancellation] CancellationToken cancellationToken = default)
            {
                using var registration = cancellationToken.Register(events.Close);
                try
                {
                    while (await events.ReadAsync().ConfigureAwait(false) is TopicEvent next)
                    {
                        yield return next;
                    }
                    if (events.Error is CacheError error)
                    {
                        yield return new TopicEvent.Error(error);
                    }
                }
                finally
                {
                    events.Close();
                }
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : SubscribeResult, IErrorResult
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
