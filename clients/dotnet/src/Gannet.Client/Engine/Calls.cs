using System;
using System.Collections.Generic;
using System.Linq;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Replies;

namespace Gannet.Client.Engine
{
    /// <summary>
    /// The calls of the schema. A call is retried only if its repetition changes nothing. Increments, pushes, pops,
    /// conditional sets and changes of a time to live are not: the first attempt may have been executed although its
    /// reply was lost.
    /// </summary>
    internal static partial class Calls
    {
        // The server's time to live of an item without one.
        private const ulong NoTtlMs = long.MaxValue;

        // Without an initializer: the fields of the other parts of this class may be initialized first.
        private static List<Call>? added;

        /// <summary>All calls with a result, some of which differ only in their results.</summary>
        public static IReadOnlyList<Call> All => added!;

        internal delegate T Decoder<out T>(ref Reader input, int end);

        internal static T Decode<T>(ReadOnlyMemory<byte> reply, Decoder<T> decode)
        {
            var input = new Reader(reply);
            return decode(ref input, input.End);
        }

        private static Call<TResult> Add<TResult>(Call<TResult> call)
        {
            (added ??= new List<Call>()).Add(call);
            return call;
        }

        private static Call<TResult> One<TReply, TResult>(
            Method method,
            Decoder<TReply> decode,
            Func<TReply, TResult> make,
            Func<CacheError, TResult> fail,
            bool isIdempotent,
            bool isHedged = false) =>
            Add(new Call<TResult>(method, replies => make(Decode(replies[0], decode)), fail, isIdempotent, isHedged));

        private static Exception Empty(string method) => new BadReplyException($"the reply to {method} is empty");

        /// <summary>Returns the result of the part <c>found</c> of a reply, or that of <c>missing</c>.</summary>
        private static TResult Found<TFound, TResult>(
            TFound? found, Missing? missing, Func<TFound, TResult> make, TResult miss)
            where TFound : class
        {
            if (found != null)
            {
                return make(found);
            }
            return missing != null ? miss : throw new BadReplyException("the reply is neither found nor missing");
        }

        private static T Only<T>(List<T> values) =>
            values.Count == 1 ? values[0] : throw new BadReplyException($"{values.Count} values in the reply for one");

        private static GetResult ToGet(GetReply reply) => reply.Result switch
        {
            Result.Hit => new GetResult.Hit(reply.Value),
            Result.Miss => (GetResult)GetResult.Miss.Instance,
            _ => throw new BadReplyException($"the result of Get is {reply.Result}"),
        };

        private static DoneResult ToSet(SetReply reply) => reply.Result == Result.Ok
            ? DoneResult.Success.Instance
            : throw new BadReplyException($"the result of Set is {reply.Result}");

        private static DoneResult Failed(CacheError error) => new DoneResult.Error(error);

        private static Call<DoneResult> Done(Method method, bool isIdempotent) =>
            One(method, V1.Replies.Done.Read, _ => (DoneResult)DoneResult.Success.Instance, Failed, isIdempotent);

        private static Call<IncrementResult> Incremented(Method method) => One(
            method,
            IncrementReply.Read,
            reply => (IncrementResult)new IncrementResult.Success(reply.Value),
            error => new IncrementResult.Error(error),
            false);

        private static Call<LengthResult> Length(Method method, bool isIdempotent = true) => One(
            method,
            LengthReply.Read,
            reply => Found<LengthReplyFound, LengthResult>(
                reply.Found, reply.Missing, found => new LengthResult.Hit(found.Length), LengthResult.Miss.Instance),
            error => new LengthResult.Error(error),
            isIdempotent);

        private static Call<SetResult> SetElements(Method method, bool isIdempotent) => One(
            method,
            ElementsReply.Read,
            reply => Found<ElementsReplyFound, SetResult>(
                reply.Found, reply.Missing, found => new SetResult.Hit(found.Elements), SetResult.Miss.Instance),
            error => new SetResult.Error(error),
            isIdempotent);

        private static Call<FoundResult> Changed(Method method, bool isIdempotent) => One(
            method,
            FoundReply.Read,
            reply => Found<V1.Replies.Done, FoundResult>(
                reply.Found, reply.Missing, _ => FoundResult.Success.Instance, FoundResult.Miss.Instance),
            error => new FoundResult.Error(error),
            isIdempotent);

        private static Call<ListLengthResult> Pushed(Method method) => One(
            method,
            ListLengthReply.Read,
            reply => (ListLengthResult)new ListLengthResult.Success(reply.Length),
            error => new ListLengthResult.Error(error),
            false);

        private static Call<ListPopResult> Popped(Method method) => One(
            method,
            ListPopReply.Read,
            reply => Found<ListPopReplyFound, ListPopResult>(
                reply.Found,
                reply.Missing,
                found => new ListPopResult.Hit(found.Value, found.Length),
                ListPopResult.Miss.Instance),
            error => new ListPopResult.Error(error),
            false);

        public static readonly Call<GetResult> Get =
            One(Methods.CacheGet, GetReply.Read, ToGet, error => new GetResult.Error(error), true, true);

        public static readonly Call<DoneResult> Set = One(Methods.CacheSet, SetReply.Read, ToSet, Failed, true);

        public static readonly Call<GetBatchResult> GetBatch = Add(new Call<GetBatchResult>(
            Methods.CacheGetBatch,
            replies => new GetBatchResult.Success(
                replies.Select(reply => ToGet(Decode<GetReply>(reply, GetReply.Read))).ToList()),
            error => new GetBatchResult.Error(error),
            true));

        public static readonly Call<DoneResult> SetBatch = Add(new Call<DoneResult>(
            Methods.CacheSetBatch,
            replies =>
            {
                foreach (var reply in replies)
                {
                    ToSet(Decode<SetReply>(reply, SetReply.Read));
                }
                return DoneResult.Success.Instance;
            },
            Failed,
            true));

        public static readonly Call<DoneResult> Delete = Done(Methods.CacheDelete, true);

        public static readonly Call<KeysExistResult> KeysExist = One(
            Methods.CacheKeysExist,
            KeysExistReply.Read,
            reply => (KeysExistResult)new KeysExistResult.Success(reply.Exists),
            error => new KeysExistResult.Error(error),
            true);

        public static readonly Call<IncrementResult> Increment = Incremented(Methods.CacheIncrement);

        public static readonly Call<GetWithHashResult> GetWithHash = One(
            Methods.CacheGetWithHash,
            GetWithHashReply.Read,
            reply => Found<GetWithHashReplyFound, GetWithHashResult>(
                reply.Found,
                reply.Missing,
                found => new GetWithHashResult.Hit(found.Value, found.Hash),
                GetWithHashResult.Miss.Instance),
            error => new GetWithHashResult.Error(error),
            true);

        public static readonly Call<ConditionalSetResult> SetIf = One(
            Methods.CacheSetIf,
            SetIfReply.Read,
            reply => reply.Stored != null ? ConditionalSetResult.Stored.Instance
                : reply.NotStored != null ? (ConditionalSetResult)ConditionalSetResult.NotStored.Instance
                : throw Empty("SetIf"),
            error => new ConditionalSetResult.Error(error),
            false);

        public static readonly Call<HashSetResult> SetIfHash = One(
            Methods.CacheSetIfHash,
            SetIfHashReply.Read,
            reply => reply.Stored != null ? new HashSetResult.Stored(reply.Stored.Hash)
                : reply.NotStored != null ? (HashSetResult)HashSetResult.NotStored.Instance
                : throw Empty("SetIfHash"),
            error => new HashSetResult.Error(error),
            false);

        public static readonly Call<UpdateTtlResult> UpdateTtl = One(
            Methods.CacheUpdateTtl,
            UpdateTtlReply.Read,
            reply => reply.Set != null ? UpdateTtlResult.Stored.Instance
                : reply.NotSet != null ? UpdateTtlResult.NotStored.Instance
                : reply.Missing != null ? (UpdateTtlResult)UpdateTtlResult.Miss.Instance
                : throw Empty("UpdateTtl"),
            error => new UpdateTtlResult.Error(error),
            false);

        public static readonly Call<TtlResult> GetTtl = One(
            Methods.CacheItemGetTtl,
            ItemTtlReply.Read,
            reply => Found<ItemTtlReplyFound, TtlResult>(
                reply.Found,
                reply.Missing,
                found => new TtlResult.Hit(RemainingOf(found.RemainingMs)),
                TtlResult.Miss.Instance),
            error => new TtlResult.Error(error),
            true);

        public static readonly Call<TypeResult> GetItemType = One(
            Methods.CacheItemGetType,
            ItemTypeReply.Read,
            reply => Found<ItemTypeReplyFound, TypeResult>(
                reply.Found,
                reply.Missing,
                found => new TypeResult.Hit(ToItemType(found.ItemType)),
                TypeResult.Miss.Instance),
            error => new TypeResult.Error(error),
            true);

        public static readonly Call<DictionaryFieldsResult> DictionaryGet = One(
            Methods.CacheDictionaryGet,
            DictionaryGetReply.Read,
            reply => Found<DictionaryGetReplyFound, DictionaryFieldsResult>(
                reply.Found,
                reply.Missing,
                found => new DictionaryFieldsResult.Hit(found.Items.Select(ValueOf).ToList()),
                DictionaryFieldsResult.Miss.Instance),
            error => new DictionaryFieldsResult.Error(error),
            true);

        public static readonly Call<GetResult> DictionaryGetOne = One(
            Methods.CacheDictionaryGet,
            DictionaryGetReply.Read,
            reply => Found<DictionaryGetReplyFound, GetResult>(
                reply.Found, reply.Missing, found => ToGet(Only(found.Items)), GetResult.Miss.Instance),
            error => new GetResult.Error(error),
            true);

        public static readonly Call<DictionaryResult> DictionaryFetch = One(
            Methods.CacheDictionaryFetch,
            DictionaryFetchReply.Read,
            reply => Found<DictionaryFetchReplyFound, DictionaryResult>(
                reply.Found,
                reply.Missing,
                found => new DictionaryResult.Hit(
                    found.Items.Select(each => KeyValuePair.Create(each.Field, each.Value)).ToList()),
                DictionaryResult.Miss.Instance),
            error => new DictionaryResult.Error(error),
            true);

        public static readonly Call<DoneResult> DictionarySet = Done(Methods.CacheDictionarySet, true);

        public static readonly Call<IncrementResult> DictionaryIncrement = Incremented(
            Methods.CacheDictionaryIncrement);

        public static readonly Call<DoneResult> DictionaryDelete = Done(Methods.CacheDictionaryDelete, true);

        public static readonly Call<LengthResult> DictionaryLength = Length(Methods.CacheDictionaryLength);

        public static readonly Call<SetResult> SetFetch = SetElements(Methods.CacheSetFetch, true);

        public static readonly Call<SetResult> SetSample = SetElements(Methods.CacheSetSample, true);

        public static readonly Call<DoneResult> SetUnion = Done(Methods.CacheSetUnion, true);

        public static readonly Call<FoundResult> SetRemove = Changed(Methods.CacheSetDifference, true);

        public static readonly Call<FoundResult> SetSubtractFrom = Changed(Methods.CacheSetDifference, false);

        public static readonly Call<ContainsResult> SetContains = One(
            Methods.CacheSetContains,
            SetContainsReply.Read,
            reply => Found<SetContainsReplyFound, ContainsResult>(
                reply.Found,
                reply.Missing,
                found => new ContainsResult.Hit(found.Contained),
                ContainsResult.Miss.Instance),
            error => new ContainsResult.Error(error),
            true);

        public static readonly Call<LengthResult> SetLength = Length(Methods.CacheSetLength);

        public static readonly Call<SetResult> SetPop = SetElements(Methods.CacheSetPop, false);

        public static readonly Call<ListLengthResult> ListPushFront = Pushed(Methods.CacheListPushFront);

        public static readonly Call<ListLengthResult> ListPushBack = Pushed(Methods.CacheListPushBack);

        public static readonly Call<ListLengthResult> ListConcatenateFront = Pushed(Methods.CacheListConcatenateFront);

        public static readonly Call<ListLengthResult> ListConcatenateBack = Pushed(Methods.CacheListConcatenateBack);

        public static readonly Call<ListPopResult> ListPopFront = Popped(Methods.CacheListPopFront);

        public static readonly Call<ListPopResult> ListPopBack = Popped(Methods.CacheListPopBack);

        public static readonly Call<LengthResult> ListRemove = Length(Methods.CacheListRemove, false);

        public static readonly Call<ListResult> ListFetch = One(
            Methods.CacheListFetch,
            ElementsReply.Read,
            reply => Found<ElementsReplyFound, ListResult>(
                reply.Found, reply.Missing, found => new ListResult.Hit(found.Elements), ListResult.Miss.Instance),
            error => new ListResult.Error(error),
            true);

        public static readonly Call<LengthResult> ListRetain = Length(Methods.CacheListRetain, false);

        public static readonly Call<LengthResult> ListLength = Length(Methods.CacheListLength);

        public static readonly Call<DoneResult> SortedSetPut = Done(Methods.CacheSortedSetPut, true);

        public static readonly Call<SortedSetResult> SortedSetFetch = One(
            Methods.CacheSortedSetFetch,
            SortedSetFetchReply.Read,
            reply => Found<SortedSetFetchReplyFound, SortedSetResult>(
                reply.Found, reply.Missing, ToScored, SortedSetResult.Miss.Instance),
            error => new SortedSetResult.Error(error),
            true);

        public static readonly Call<ScoresResult> SortedSetGetScores = One(
            Methods.CacheSortedSetGetScore,
            ScoresReply.Read,
            reply => Found<ScoresReplyFound, ScoresResult>(
                reply.Found,
                reply.Missing,
                found => new ScoresResult.Hit(found.Elements.Select(ScoreOf).ToList()),
                ScoresResult.Miss.Instance),
            error => new ScoresResult.Error(error),
            true);

        public static readonly Call<ScoreResult> SortedSetGetScore = One(
            Methods.CacheSortedSetGetScore,
            ScoresReply.Read,
            reply => Found<ScoresReplyFound, ScoreResult>(
                reply.Found,
                reply.Missing,
                found => ScoreOf(Only(found.Elements)) is double score
                    ? new ScoreResult.Hit(score)
                    : (ScoreResult)ScoreResult.Miss.Instance,
                ScoreResult.Miss.Instance),
            error => new ScoreResult.Error(error),
            true);

        public static readonly Call<DoneResult> SortedSetRemove = Done(Methods.CacheSortedSetRemove, true);

        public static readonly Call<ScoreIncrementResult> SortedSetIncrement = One(
            Methods.CacheSortedSetIncrement,
            ScoreReply.Read,
            reply => (ScoreIncrementResult)new ScoreIncrementResult.Success(reply.Score),
            error => new ScoreIncrementResult.Error(error),
            false);

        public static readonly Call<RankResult> SortedSetGetRank = One(
            Methods.CacheSortedSetGetRank,
            RankReply.Read,
            reply => Found<RankReplyElement, RankResult>(
                reply.Element,
                reply.Missing,
                each => each.Result == Result.Hit
                    ? new RankResult.Hit((long)each.Rank)
                    : (RankResult)RankResult.Miss.Instance,
                RankResult.Miss.Instance),
            error => new RankResult.Error(error),
            true);

        public static readonly Call<LengthResult> SortedSetLength = Length(Methods.CacheSortedSetLength);

        public static readonly Call<DoneResult> CreateCache = Done(Methods.CachesCreateCache, false);

        public static readonly Call<DoneResult> DeleteCache = Done(Methods.CachesDeleteCache, false);

        public static readonly Call<ListCachesResult> ListCaches = One(
            Methods.CachesListCaches,
            ListCachesReply.Read,
            reply => (ListCachesResult)new ListCachesResult.Success(reply.Caches.Select(each => each.Name).ToList()),
            error => new ListCachesResult.Error(error),
            true);

        public static readonly Call<DoneResult> FlushCache = Done(Methods.CachesFlushCache, true);

        // Above the longest TimeSpan, the remaining time has no use.
        private static TimeSpan? RemainingOf(ulong ms) =>
            ms == NoTtlMs ? (TimeSpan?)null
                : ms >= (ulong)TimeSpan.MaxValue.TotalMilliseconds ? TimeSpan.MaxValue
                : TimeSpan.FromMilliseconds(ms);

        private static ItemType ToItemType(ItemTypeReplyItemType type) => type <= ItemTypeReplyItemType.SortedSet
            ? (ItemType)(int)type
            : throw new BadReplyException($"the type of the item is {type}");

        private static ReadOnlyMemory<byte>? ValueOf(GetReply reply) =>
            reply.Result == Result.Hit ? reply.Value : (ReadOnlyMemory<byte>?)null;

        private static double? ScoreOf(ScoresReplyElement element) =>
            element.Result == Result.Hit ? element.Score : (double?)null;

        private static SortedSetResult ToScored(SortedSetFetchReplyFound found)
        {
            var elements = new List<(ReadOnlyMemory<byte>, double)>();
            foreach (var each in found.Scored?.Elements ?? new List<ScoredElement>())
            {
                elements.Add((each.Value, each.Score));
            }
            return new SortedSetResult.Hit(elements);
        }
    }
}
