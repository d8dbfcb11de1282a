using System;
using System.Collections.Generic;
using System.Linq;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Replies;

namespace Gannet.Client.Engine
{
    // Records. A repeated change raises the revision a second time, or fails by its own condition.
    internal static partial class Calls
    {
        public static readonly Call<RecordResult> RecordGet = One(
            Methods.RecordsRecordGet,
            RecordGetReply.Read,
            reply => Found<V1.Replies.Record, RecordResult>(
                reply.Found, reply.Missing, found => new RecordResult.Hit(RecordOf(found)), RecordResult.Miss.Instance),
            error => new RecordResult.Error(error),
            true);

        public static readonly Call<RevisionResult> RecordPut = Revised(Methods.RecordsRecordPut);

        public static readonly Call<RevisionResult> RecordAdd = Revised(Methods.RecordsRecordAdd);

        public static readonly Call<RevisionResult> RecordAppend = Revised(Methods.RecordsRecordAppend);

        public static readonly Call<RevisionResult> RecordTouch = Revised(Methods.RecordsRecordTouch);

        public static readonly Call<FoundResult> RecordDelete = One(
            Methods.RecordsRecordDelete,
            RecordDeleteReply.Read,
            reply => reply.Found ? FoundResult.Success.Instance : (FoundResult)FoundResult.Miss.Instance,
            error => new FoundResult.Error(error),
            false);

        public static readonly Call<RecordPageResult> RecordScan = Page(Methods.RecordsRecordScan);

        public static readonly Call<RecordPageResult> RecordQuery = Page(Methods.RecordsRecordQuery);

        private static Call<RevisionResult> Revised(Method method) => One(
            method,
            RecordRevision.Read,
            reply => (RevisionResult)new RevisionResult.Success(reply.Revision),
            error => new RevisionResult.Error(error),
            false);

        private static Call<RecordPageResult> Page(Method method) => One(
            method,
            RecordPage.Read,
            reply => (RecordPageResult)new RecordPageResult.Success(
                reply.Records.Select(RecordOf).ToList(), reply.Cursor),
            error => new RecordPageResult.Error(error),
            true);

        private static Record RecordOf(V1.Replies.Record reply)
        {
            var bins = new Dictionary<string, BinValue>(StringComparer.Ordinal);
            foreach (var bin in reply.Bins)
            {
                bins[bin.Name.Span.Utf8()] = BinValue.OfReply(bin.Value);
            }
            var isEndless = reply.ExpiresAtMs == 0
                || reply.ExpiresAtMs > (ulong)DateTimeOffset.MaxValue.ToUnixTimeMilliseconds();
            return new Record(
                reply.Key,
                reply.Revision,
                isEndless ? (DateTimeOffset?)null : DateTimeOffset.FromUnixTimeMilliseconds((long)reply.ExpiresAtMs),
                bins);
        }
    }
}
