using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Gannet.Client.Engine;
using Gannet.V1.Requests;

namespace Gannet.Client
{
    /// <summary>
    /// Records of one cache: keys with named and typed bins, a revision that grows with each change, and filters.
    /// </summary>
    public sealed class Records
    {
        private readonly Caller caller;

        internal Records(Caller caller)
        {
            this.caller = caller;
        }

        /// <summary>Returns a record.</summary>
        /// <param name="key">The key.</param>
        /// <param name="view">The bins and the filter; all bins and none if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A hit, a miss (also if the filter is false), or an error.</returns>
        public async Task<RecordResult> GetAsync(
            Bytes key,
            RecordView? view = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            var request = new RecordGetRequest { Key = key, Filter = FilterOf(view), Bins = BinsOf(view) };
            var result = await caller.Send(Calls.RecordGet, request, deadline, cancellationToken).ConfigureAwait(false);
            // The reply to one key does not repeat it.
            return result is RecordResult.Hit hit ? new RecordResult.Hit(hit.Record.WithKey(key.ToArray())) : result;
        }

        /// <summary>
        /// Sets bins. Other bins stay, unless <see cref="RecordChange.When"/> is <see cref="RecordWhen.Replace"/>.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="bins">The names and values, at least one.</param>
        /// <param name="change">Conditions and options; none if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The new revision or an error.</returns>
        public Task<RevisionResult> PutAsync(
            Bytes key,
            IEnumerable<KeyValuePair<string, BinValue>> bins,
            RecordChange? change = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(Calls.RecordPut, RequestOf(key, bins, change), deadline, cancellationToken);

        /// <summary>
        /// Adds to numbers: integers to integers, and numbers to numbers. A bin that does not exist counts as 0.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="bins">The names and amounts, at least one.</param>
        /// <param name="change">Conditions and options; none if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The new revision or an error.</returns>
        public Task<RevisionResult> AddAsync(
            Bytes key,
            IEnumerable<KeyValuePair<string, BinValue>> bins,
            RecordChange? change = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(Calls.RecordAdd, RequestOf(key, bins, change), deadline, cancellationToken);

        /// <summary>Appends to texts and bytes. A bin that does not exist counts as empty.</summary>
        /// <param name="key">The key.</param>
        /// <param name="bins">The names and further parts, at least one.</param>
        /// <param name="change">Conditions and options; none if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The new revision or an error.</returns>
        public Task<RevisionResult> AppendAsync(
            Bytes key,
            IEnumerable<KeyValuePair<string, BinValue>> bins,
            RecordChange? change = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(Calls.RecordAppend, RequestOf(key, bins, change), deadline, cancellationToken);

        /// <summary>
        /// Changes only the time to live and the revision. A record that does not exist is the error <see
        /// cref="ErrorCode.NotFoundRecord"/>.
        /// </summary>
        /// <param name="key">The key.</param>
        /// <param name="change">The time to live and conditions, without <see cref="RecordChange.When"/>.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The new revision or an error.</returns>
        public Task<RevisionResult> TouchAsync(
            Bytes key,
            RecordChange? change = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.RecordTouch,
                RequestOf(key, Array.Empty<KeyValuePair<string, BinValue>>(), change),
                deadline,
                cancellationToken);

        /// <summary>Deletes a record.</summary>
        /// <param name="key">The key.</param>
        /// <param name="ifRevision">The revision that the record must have; any if it is null.</param>
        /// <param name="ifRevisionAbove">The revision that that of the record must exceed; any if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>A success, a miss if there is no record, or an error.</returns>
        public Task<FoundResult> DeleteAsync(
            Bytes key,
            uint? ifRevision = null,
            uint? ifRevisionAbove = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.RecordDelete,
                new RecordDeleteRequest { Key = key, IfRevision = ifRevision, IfRevisionAbove = ifRevisionAbove },
                deadline,
                cancellationToken);

        /// <summary>Returns a page of the records of a set. It may have fewer records than its maximum, or none.</summary>
        /// <param name="set">The set.</param>
        /// <param name="cursor">The cursor of the page; empty for the first one.</param>
        /// <param name="countMax">The maximum number of records, at most 4,096; 0 for 10.</param>
        /// <param name="view">The bins and the filter; all bins and none if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The page or an error.</returns>
        public Task<RecordPageResult> ScanAsync(
            string set,
            string cursor = "",
            uint countMax = 0,
            RecordView? view = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default) =>
            caller.Send(
                Calls.RecordScan,
                new RecordScanRequest
                {
                    Set = set, Cursor = cursor, CountMax = countMax, Filter = FilterOf(view), Bins = BinsOf(view),
                },
                deadline,
                cancellationToken);

        /// <summary>
        /// Returns a page of the records of a set whose bin has certain values. The bin needs an index, which
        /// <c>REC.INDEX CREATE</c> of a Redis client creates.
        /// </summary>
        /// <param name="set">The set.</param>
        /// <param name="bin">The bin.</param>
        /// <param name="values">The values.</param>
        /// <param name="cursor">The cursor of the page; empty for the first one.</param>
        /// <param name="countMax">The maximum number of records, at most 4,096; 0 for 100.</param>
        /// <param name="view">The bins and the filter; all bins and none if it is null.</param>
        /// <param name="deadline">The time for this call; that of the configuration if it is null.</param>
        /// <param name="cancellationToken">Cancels the call, also while it waits in the queue.</param>
        /// <returns>The page or an error.</returns>
        public Task<RecordPageResult> QueryAsync(
            string set,
            string bin,
            BinRange values,
            string cursor = "",
            uint countMax = 0,
            RecordView? view = null,
            TimeSpan? deadline = null,
            CancellationToken cancellationToken = default)
        {
            _ = values ?? throw new ArgumentNullException(nameof(values));
            var request = new RecordQueryRequest
            {
                Set = set, Bin = bin, Cursor = cursor, CountMax = countMax, Filter = FilterOf(view), Bins = BinsOf(view),
            };
            if (values.IsOne)
            {
                request.Equal = values.Least.ToMessage();
            }
            else
            {
                (request.Least, request.Greatest) = (values.Least.ToMessage(), values.Greatest.ToMessage());
            }
            return caller.Send(Calls.RecordQuery, request, deadline, cancellationToken);
        }

        private static string FilterOf(RecordView? view) => view?.Filter ?? string.Empty;

        private static IReadOnlyList<Bytes> BinsOf(RecordView? view) =>
            view?.Bins == null ? Array.Empty<Bytes>() : Bytes.ListOf(view.Bins);

        private static RecordChangeRequest RequestOf(
            Bytes key, IEnumerable<KeyValuePair<string, BinValue>> bins, RecordChange? change)
        {
            change ??= new RecordChange();
            return new RecordChangeRequest
            {
                Key = key,
                Bins = (bins ?? throw new ArgumentNullException(nameof(bins)))
                    .Select(each => new Bin { Name = each.Key, Value = BinValue.MessageOf(each.Value) }).ToList(),
                TtlMs = Times.OptionalMs(nameof(RecordChange.Ttl), change.Ttl),
                Persist = change.Persist,
                When = (V1.RecordChangeRequestWhen)change.When,
                IfRevision = change.IfRevision,
                IfRevisionAbove = change.IfRevisionAbove,
                Set = change.Set ?? string.Empty,
                Filter = change.Filter ?? string.Empty,
            };
        }
    }

    /// <summary>The part of records that a call reads.</summary>
    public sealed class RecordView
    {
        /// <summary>The names of the bins; null for all.</summary>
        public IEnumerable<string>? Bins { get; set; }

        /// <summary>
        /// A filter such as <c>age &gt;= 30 and not (city == 'Paris')</c>. A record for which it is false counts as
        /// missing.
        /// </summary>
        public string? Filter { get; set; }
    }

    /// <summary>The state of a record in which it is changed.</summary>
    public enum RecordWhen
    {
        /// <summary>In any state.</summary>
        Always,

        /// <summary>Only if it does not exist.</summary>
        Create,

        /// <summary>Only if it exists.</summary>
        Update,

        /// <summary>In any state; its earlier bins are removed.</summary>
        Replace,
    }

    /// <summary>Conditions and options of a change of a record.</summary>
    public sealed class RecordChange
    {
        /// <summary>The new time to live; null to leave it unchanged. A new record has none then.</summary>
        public TimeSpan? Ttl { get; set; }

        /// <summary>True to remove the time to live.</summary>
        public bool Persist { get; set; }

        /// <summary>The state of the record in which it is changed.</summary>
        public RecordWhen When { get; set; }

        /// <summary>The revision that the record must have; 0 for no record, null for any.</summary>
        public uint? IfRevision { get; set; }

        /// <summary>The revision that that of the record must exceed; null for any.</summary>
        public uint? IfRevisionAbove { get; set; }

        /// <summary>The set, which is fixed when the record is created; null for any, and none for a new record.</summary>
        public string? Set { get; set; }

        /// <summary>A filter that the record must match, if it exists; null for none.</summary>
        public string? Filter { get; set; }
    }

    /// <summary>The values of a bin that a query finds.</summary>
    public sealed class BinRange
    {
        private BinRange(BinValue least, BinValue greatest, bool isOne)
        {
            Least = least ?? throw new ArgumentNullException(nameof(least));
            Greatest = greatest ?? throw new ArgumentNullException(nameof(greatest));
            IsOne = isOne;
        }

        internal BinValue Least { get; }

        internal BinValue Greatest { get; }

        internal bool IsOne { get; }

        /// <summary>Returns the range of one value.</summary>
        /// <param name="value">The value: an integer or a text.</param>
        /// <returns>The range.</returns>
        public static BinRange Equal(BinValue value) => new BinRange(value, value, true);

        /// <summary>Returns a range, both ends included.</summary>
        /// <param name="least">The least value: an integer or a text.</param>
        /// <param name="greatest">The greatest value.</param>
        /// <returns>The range.</returns>
        public static BinRange Between(BinValue least, BinValue greatest) => new BinRange(least, greatest, false);
    }

    /// <summary>A record.</summary>
    public sealed class Record
    {
        internal Record(
            ReadOnlyMemory<byte> key,
            uint revision,
            DateTimeOffset? expiresAt,
            IReadOnlyDictionary<string, BinValue> bins)
        {
            KeyBytes = key;
            Revision = revision;
            ExpiresAt = expiresAt;
            Bins = bins;
        }

        /// <summary>The key.</summary>
        public ReadOnlyMemory<byte> KeyBytes { get; }

        /// <summary>The key as text (UTF-8).</summary>
        public string KeyString => KeyBytes.Span.Utf8();

        /// <summary>The revision. A new record has 1, and each change adds 1.</summary>
        public uint Revision { get; }

        /// <summary>The instant at which the record expires; null for never.</summary>
        public DateTimeOffset? ExpiresAt { get; }

        /// <summary>The values by name.</summary>
        public IReadOnlyDictionary<string, BinValue> Bins { get; }

        internal Record WithKey(ReadOnlyMemory<byte> key) => new Record(key, Revision, ExpiresAt, Bins);
    }

    /// <summary>The result of a get of a record: <c>Hit</c>, <c>Miss</c> or <c>Error</c>.</summary>
    public abstract class RecordResult
    {
        private protected RecordResult()
        {
        }

        /// <summary>A record.</summary>
        public sealed class Hit : RecordResult
        {
            internal Hit(Record record) => Record = record;

            /// <summary>The record.</summary>
            public Record Record { get; }
        }

        /// <summary>The record does not exist, or the filter is false.</summary>
        public sealed class Miss : RecordResult
        {
            internal static readonly Miss Instance = new Miss();

            private Miss()
            {
            }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : RecordResult, IErrorResult
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

    /// <summary>The result of a change of a record: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class RevisionResult
    {
        private protected RevisionResult()
        {
        }

        /// <summary>The record was changed.</summary>
        public sealed class Success : RevisionResult
        {
            internal Success(uint revision) => Revision = revision;

            /// <summary>The revision after the change.</summary>
            public uint Revision { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : RevisionResult, IErrorResult
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

    /// <summary>A page of records: <c>Success</c> or <c>Error</c>.</summary>
    public abstract class RecordPageResult
    {
        private protected RecordPageResult()
        {
        }

        /// <summary>Some records.</summary>
        public sealed class Success : RecordPageResult
        {
            internal Success(IReadOnlyList<Record> records, string cursor)
            {
                Records = records;
                Cursor = cursor;
            }

            /// <summary>The records.</summary>
            public IReadOnlyList<Record> Records { get; }

            /// <summary>The cursor of the next page; empty after the last one.</summary>
            public string Cursor { get; }
        }

        /// <summary>The call failed.</summary>
        public sealed class Error : RecordPageResult, IErrorResult
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
