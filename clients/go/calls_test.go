package gannet_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	gannet "gannet.dev/client"
)

// got returns a result, and fails the test if the call failed.
func got[R any](t *testing.T) func(R, error) R {
	return func(result R, err error) R {
		t.Helper()
		must(t, err)
		return result
	}
}

func equal(t *testing.T, have, want any) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("result is %#v, want %#v", have, want)
	}
}

func TestItems(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	get := func(key string) any { return got[gannet.GetResult](t)(client.Get(ctx, "default", key)) }
	equal(t, get("k"), &gannet.GetMiss{})
	must(t, client.Set(ctx, "default", "k", []byte("v\x00\xff")))
	equal(t, get("k"), &gannet.GetHit{Value: []byte("v\x00\xff")})
	equal(t, got[[]bool](t)(client.KeysExist(ctx, "default", "none", "k")), []bool{false, true})
	must(t, client.Delete(ctx, "default", "k"))
	must(t, client.Delete(ctx, "default", "k"))
	equal(t, get("k"), &gannet.GetMiss{})
	equal(t, got[int64](t)(client.Increment(ctx, "default", "n", 40)), int64(40))
	equal(t, got[int64](t)(client.Increment(ctx, "default", "n", -50)), int64(-10))
	_, err := client.Get(ctx, "default", "")
	wantCode(t, err, gannet.CodeInvalidArgument)
}

func TestBatches(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	items := []gannet.Item{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}
	must(t, client.SetBatch(ctx, "default", items, gannet.TTL(time.Minute)))
	results := got[[]gannet.GetResult](t)(client.GetBatch(ctx, "default", "b", "none", "a"))
	hit := func(value string) gannet.GetResult { return &gannet.GetHit{Value: []byte(value)} }
	equal(t, results, []gannet.GetResult{hit("2"), &gannet.GetMiss{}, hit("1")})
	must(t, client.SetBatch(ctx, "default", nil))
}

func TestTimesToLive(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	ttl := func() time.Duration {
		t.Helper()
		return got[gannet.TTLResult](t)(client.GetTTL(ctx, "default", "k")).(*gannet.TTLHit).Remaining
	}
	near := func(have, want time.Duration) {
		t.Helper()
		if have > want || have < want-10*time.Second {
			t.Fatalf("time to live is %v, want about %v", have, want)
		}
	}
	update := got[gannet.UpdateTTLResult](t)
	equal(t, update(client.UpdateTTL(ctx, "default", "k", time.Minute)), &gannet.Miss{})
	must(t, client.Set(ctx, "default", "k", []byte("v")))
	near(ttl(), time.Minute) // the default of the client
	must(t, client.Set(ctx, "default", "k", []byte("v"), gannet.TTL(time.Hour)))
	near(ttl(), time.Hour)
	equal(t, update(client.IncreaseTTL(ctx, "default", "k", time.Minute)), &gannet.NotStored{})
	equal(t, update(client.DecreaseTTL(ctx, "default", "k", 2*time.Hour)), &gannet.NotStored{})
	equal(t, update(client.IncreaseTTL(ctx, "default", "k", 2*time.Hour)), &gannet.Stored{})
	near(ttl(), 2*time.Hour)
	equal(t, update(client.DecreaseTTL(ctx, "default", "k", time.Hour)), &gannet.Stored{})
	near(ttl(), time.Hour)
	equal(t, update(client.UpdateTTL(ctx, "default", "k", time.Minute)), &gannet.Stored{})
	near(ttl(), time.Minute)
	equal(t, got[gannet.TTLResult](t)(client.GetTTL(ctx, "default", "none")), &gannet.Miss{})
}

func TestCaches(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	get := func(cache string) any { return got[gannet.GetResult](t)(client.Get(ctx, cache, "k")) }
	must(t, client.CreateCache(ctx, "one"))
	wantCode(t, client.CreateCache(ctx, "one"), gannet.CodeAlreadyExists)
	names := got[[]string](t)(client.ListCaches(ctx))
	if !slices.Contains(names, "default") || !slices.Contains(names, "one") {
		t.Fatalf("caches are %v", names)
	}
	must(t, client.Set(ctx, "one", "k", []byte("v")))
	equal(t, get("one"), &gannet.GetHit{Value: []byte("v")})
	equal(t, get("default"), &gannet.GetMiss{})
	must(t, client.FlushCache(ctx, "one"))
	equal(t, get("one"), &gannet.GetMiss{})
	must(t, client.DeleteCache(ctx, "one"))
	_, err := client.Get(ctx, "one", "k")
	wantCode(t, err, gannet.CodeNotFoundCache)
}

func TestConditionalSets(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	result := got[gannet.ConditionalSetResult](t)
	yes, no := &gannet.Stored{}, &gannet.NotStored{}
	a, b, c := []byte("a"), []byte("b"), []byte("c")
	equal(t, result(client.SetIfPresent(ctx, "default", "k", a)), no)
	equal(t, result(client.SetIfEqual(ctx, "default", "k", a, b)), no)
	equal(t, result(client.SetIfPresentAndNotEqual(ctx, "default", "k", a, b)), no)
	equal(t, result(client.SetIfAbsent(ctx, "default", "k", a)), yes)
	equal(t, result(client.SetIfAbsent(ctx, "default", "k", b)), no)
	equal(t, result(client.SetIfPresent(ctx, "default", "k", b)), yes)
	equal(t, result(client.SetIfEqual(ctx, "default", "k", c, a)), no)
	equal(t, result(client.SetIfEqual(ctx, "default", "k", c, b)), yes)
	equal(t, result(client.SetIfNotEqual(ctx, "default", "k", a, c)), no)
	equal(t, result(client.SetIfNotEqual(ctx, "default", "k", a, b)), yes)
	equal(t, result(client.SetIfAbsentOrEqual(ctx, "default", "k", b, c)), no)
	equal(t, result(client.SetIfAbsentOrEqual(ctx, "default", "k", b, a)), yes)
	equal(t, result(client.SetIfAbsentOrEqual(ctx, "default", "new", b, a)), yes)
	equal(t, result(client.SetIfPresentAndNotEqual(ctx, "default", "k", c, b)), no)
	equal(t, result(client.SetIfPresentAndNotEqual(ctx, "default", "k", c, a)), yes)
	equal(t, got[gannet.GetResult](t)(client.Get(ctx, "default", "k")), &gannet.GetHit{Value: c})
}

func TestConditionalSetsByHash(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	result := got[gannet.HashSetResult](t)
	no := &gannet.NotStored{}
	a, b := []byte("a"), []byte("b")
	isStored := func(result gannet.HashSetResult) []byte {
		t.Helper()
		stored, isStored := result.(*gannet.StoredWithHash)
		if !isStored || len(stored.Hash) == 0 {
			t.Fatalf("result is %#v, want a hash", result)
		}
		return stored.Hash
	}
	equal(t, got[gannet.GetWithHashResult](t)(client.GetWithHash(ctx, "default", "k")), &gannet.GetMiss{})
	hash := isStored(result(client.SetWithHash(ctx, "default", "k", a)))
	equal(t, got[gannet.GetWithHashResult](t)(client.GetWithHash(ctx, "default", "k")),
		&gannet.GetWithHashHit{Value: a, Hash: hash})
	equal(t, result(client.SetIfPresentAndHashNotEqual(ctx, "default", "k", b, hash)), no)
	equal(t, result(client.SetIfAbsentOrHashNotEqual(ctx, "default", "k", b, hash)), no)
	other := isStored(result(client.SetIfPresentAndHashEqual(ctx, "default", "k", b, hash)))
	equal(t, result(client.SetIfPresentAndHashEqual(ctx, "default", "k", b, hash)), no)
	equal(t, result(client.SetIfAbsentOrHashEqual(ctx, "default", "k", b, hash)), no)
	isStored(result(client.SetIfAbsentOrHashEqual(ctx, "default", "new", b, hash)))
	isStored(result(client.SetIfAbsentOrHashNotEqual(ctx, "default", "k", a, hash)))
	isStored(result(client.SetIfPresentAndHashNotEqual(ctx, "default", "k", a, other)))
}

func TestDictionaries(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	fetch := func() any { return got[gannet.DictionaryResult](t)(client.DictionaryFetch(ctx, "default", "d")) }
	get := func(field string) any {
		return got[gannet.GetResult](t)(client.DictionaryGetField(ctx, "default", "d", field))
	}
	equal(t, fetch(), &gannet.Miss{})
	equal(t, get("a"), &gannet.GetMiss{})
	must(t, client.DictionarySetField(ctx, "default", "d", "a", []byte("1")))
	must(t, client.DictionarySetFields(ctx, "default", "d", map[string][]byte{"b": []byte("2"), "c": []byte("3")}))
	equal(t, get("a"), &gannet.GetHit{Value: []byte("1")})
	equal(t, get("x"), &gannet.GetMiss{})
	equal(t, got[gannet.DictionaryFieldsResult](t)(client.DictionaryGetFields(ctx, "default", "d", "b", "x")),
		&gannet.DictionaryFieldsHit{Results: []gannet.GetResult{&gannet.GetHit{Value: []byte("2")}, &gannet.GetMiss{}}})
	equal(t, got[int64](t)(client.DictionaryIncrement(ctx, "default", "d", "a", 41)), int64(42))
	must(t, client.DictionaryRemoveFields(ctx, "default", "d", "b", "x"))
	equal(t, fetch().(*gannet.DictionaryHit).FieldStrings(), map[string]string{"a": "42", "c": "3"})
	length := got[gannet.LengthResult](t)
	equal(t, length(client.DictionaryLength(ctx, "default", "d")), &gannet.LengthHit{Length: 2})
	must(t, client.DictionaryDelete(ctx, "default", "d"))
	equal(t, length(client.DictionaryLength(ctx, "default", "d")), &gannet.Miss{})
}

func TestSets(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	set, found, length := got[gannet.SetResult](t), got[gannet.FoundResult](t), got[gannet.LengthResult](t)
	elements := func(result gannet.SetResult) []string {
		t.Helper()
		hit := result.(*gannet.SetHit)
		slices.Sort(hit.Elements)
		return hit.Elements
	}
	equal(t, set(client.SetFetch(ctx, "default", "s")), &gannet.Miss{})
	equal(t, found(client.SetRemoveElements(ctx, "default", "s", "a")), &gannet.Miss{})
	must(t, client.SetAddElements(ctx, "default", "s", []string{"a", "b", "c", "c"}))
	equal(t, elements(set(client.SetFetch(ctx, "default", "s"))), []string{"a", "b", "c"})
	equal(t, got[gannet.ContainsResult](t)(client.SetContains(ctx, "default", "s", "a", "x")),
		&gannet.ContainsHit{Contained: []bool{true, false}})
	equal(t, len(elements(set(client.SetSample(ctx, "default", "s", 2)))), 2)
	equal(t, length(client.SetLength(ctx, "default", "s")), &gannet.LengthHit{Length: 3})
	equal(t, found(client.SetRemoveElements(ctx, "default", "s", "a")), &gannet.Found{})
	popped := elements(set(client.SetPop(ctx, "default", "s", 1)))
	if len(popped) != 1 || (popped[0] != "b" && popped[0] != "c") {
		t.Fatalf("popped %v", popped)
	}
	must(t, client.SetAddElements(ctx, "default", "s", []string{"b", "c"}))
	equal(t, found(client.SetSubtractFrom(ctx, "default", "s", "c", "x")), &gannet.Found{})
	equal(t, elements(set(client.SetFetch(ctx, "default", "s"))), []string{"x"})
	equal(t, found(client.SetDelete(ctx, "default", "s")), &gannet.Found{})
	equal(t, length(client.SetLength(ctx, "default", "s")), &gannet.Miss{})
}

func TestLists(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	number, length, pop := got[int](t), got[gannet.LengthResult](t), got[gannet.PopResult](t)
	fetch := func(elements gannet.Range) []string {
		t.Helper()
		return got[gannet.ListResult](t)(client.ListFetch(ctx, "default", "l", elements)).(*gannet.ListHit).ElementStrings()
	}
	many := func(values ...string) (data [][]byte) {
		for _, each := range values {
			data = append(data, []byte(each))
		}
		return data
	}
	equal(t, got[gannet.ListResult](t)(client.ListFetch(ctx, "default", "l", gannet.All())), &gannet.Miss{})
	equal(t, pop(client.ListPopFront(ctx, "default", "l")), &gannet.Miss{})
	equal(t, number(client.ListPushBack(ctx, "default", "l", []byte("b"))), 1)
	equal(t, number(client.ListPushFront(ctx, "default", "l", []byte("a"))), 2)
	equal(t, number(client.ListConcatenateBack(ctx, "default", "l", many("c", "d"))), 4)
	equal(t, number(client.ListConcatenateFront(ctx, "default", "l", many("y", "z"))), 6)
	equal(t, fetch(gannet.All()), []string{"y", "z", "a", "b", "c", "d"})
	equal(t, fetch(gannet.Between(1, -3)), []string{"z", "a"})
	equal(t, fetch(gannet.From(-2)), []string{"c", "d"})
	equal(t, fetch(gannet.Before(1)), []string{"y"})
	equal(t, pop(client.ListPopFront(ctx, "default", "l")), &gannet.PopHit{Value: []byte("y"), Length: 5})
	equal(t, pop(client.ListPopBack(ctx, "default", "l")), &gannet.PopHit{Value: []byte("d"), Length: 4})
	equal(t, number(client.ListPushBack(ctx, "default", "l", []byte("z"), gannet.MaxLength(4))), 4)
	equal(t, length(client.ListRemoveValue(ctx, "default", "l", []byte("z"))), &gannet.LengthHit{Length: 3})
	equal(t, length(client.ListRetain(ctx, "default", "l", gannet.From(-2))), &gannet.LengthHit{Length: 2})
	equal(t, length(client.ListLength(ctx, "default", "l")), &gannet.LengthHit{Length: 2})
	equal(t, fetch(gannet.All()), []string{"b", "c"})
}

func TestSortedSets(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	result, rank := got[gannet.SortedSetResult](t), got[gannet.RankResult](t)
	byIndex := func(ranks gannet.Range, order gannet.Order) any {
		return result(client.SortedSetFetchByIndex(ctx, "default", "z", ranks, order))
	}
	byScore := func(scores gannet.ScoreRange) any {
		return result(client.SortedSetFetchByScore(ctx, "default", "z", scores, gannet.Ascending))
	}
	hit := func(elements ...gannet.Scored) any { return &gannet.SortedSetHit{Elements: elements} }
	a, b := gannet.Scored{Element: "a", Score: 1.5}, gannet.Scored{Element: "b", Score: 2.5}
	c := gannet.Scored{Element: "c", Score: -1}
	equal(t, byIndex(gannet.All(), gannet.Ascending), &gannet.Miss{})
	must(t, client.SortedSetPutElements(ctx, "default", "z", map[string]float64{"a": 1.5, "b": 2.5, "c": -1}))
	equal(t, byIndex(gannet.All(), gannet.Ascending), hit(c, a, b))
	equal(t, byIndex(gannet.Before(1), gannet.Descending), hit(b))
	equal(t, byIndex(gannet.Between(1, -1), gannet.Ascending), hit(a))
	all := gannet.ScoreRange{}
	equal(t, byScore(all), hit(c, a, b))
	equal(t, byScore(all.WithLeast(1.5)), hit(a, b))
	equal(t, byScore(all.WithLeastExclusive(1.5).WithGreatest(9)), hit(b))
	equal(t, byScore(all.WithGreatestExclusive(2.5)), hit(c, a))
	equal(t, byScore(all.WithOffset(1).WithCount(1)), hit(a))
	score := got[gannet.ScoreResult](t)
	equal(t, score(client.SortedSetGetScore(ctx, "default", "z", "a")), &gannet.ScoreHit{Score: 1.5})
	equal(t, score(client.SortedSetGetScore(ctx, "default", "z", "x")), &gannet.Miss{})
	equal(t, score(client.SortedSetGetScore(ctx, "default", "none", "x")), &gannet.Miss{})
	equal(t, got[gannet.ScoresResult](t)(client.SortedSetGetScores(ctx, "default", "z", "x", "b")),
		&gannet.ScoresHit{Results: []gannet.ScoreResult{&gannet.Miss{}, &gannet.ScoreHit{Score: 2.5}}})
	equal(t, got[float64](t)(client.SortedSetIncrement(ctx, "default", "z", "a", 10)), 11.5)
	equal(t, rank(client.SortedSetGetRank(ctx, "default", "z", "a", gannet.Ascending)), &gannet.RankHit{Rank: 2})
	equal(t, rank(client.SortedSetGetRank(ctx, "default", "z", "a", gannet.Descending)), &gannet.RankHit{})
	equal(t, rank(client.SortedSetGetRank(ctx, "default", "z", "x", gannet.Ascending)), &gannet.Miss{})
	must(t, client.SortedSetRemoveElements(ctx, "default", "z", "a", "x"))
	length := got[gannet.LengthResult](t)
	equal(t, length(client.SortedSetLength(ctx, "default", "z")), &gannet.LengthHit{Length: 2})
	must(t, client.SortedSetDelete(ctx, "default", "z"))
	equal(t, length(client.SortedSetLength(ctx, "default", "z")), &gannet.Miss{})
}

func TestAWriteSetsTheTimeToLiveUnlessItKeepsIt(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	after := func(options ...gannet.CollectionOption) time.Duration {
		t.Helper()
		must(t, client.SetAddElements(ctx, "default", "s", []string{"a"}, options...))
		return got[gannet.TTLResult](t)(client.GetTTL(ctx, "default", "s")).(*gannet.TTLHit).Remaining
	}
	between := func(have, least, greatest time.Duration) {
		t.Helper()
		if have <= least || have > greatest {
			t.Fatalf("time to live is %v", have)
		}
	}
	between(after(gannet.TTL(time.Hour), gannet.KeepTTL), time.Minute, time.Hour)
	between(after(gannet.TTL(5*time.Second), gannet.KeepTTL), time.Minute, time.Hour)
	between(after(gannet.TTL(5*time.Second)), 0, 5*time.Second)
	between(after(), 5*time.Second, time.Minute)
}

func TestTypes(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	must(t, client.Set(ctx, "default", "v", []byte("1")))
	must(t, client.DictionarySetField(ctx, "default", "d", "f", []byte("1")))
	must(t, client.SetAddElements(ctx, "default", "s", []string{"a"}))
	got[int](t)(client.ListPushBack(ctx, "default", "l", []byte("a")))
	must(t, client.SortedSetPutElements(ctx, "default", "z", map[string]float64{"a": 1}))
	for key, want := range map[string]gannet.ItemType{
		"v": gannet.TypeValue, "d": gannet.TypeDictionary, "s": gannet.TypeSet, "l": gannet.TypeList,
		"z": gannet.TypeSortedSet,
	} {
		equal(t, got[gannet.TypeResult](t)(client.GetType(ctx, "default", key)), &gannet.TypeHit{Type: want})
	}
	equal(t, got[gannet.TypeResult](t)(client.GetType(ctx, "default", "none")), &gannet.Miss{})
	_, err := client.Get(ctx, "default", "l")
	wantCode(t, err, gannet.CodeFailedPrecondition)
}

func TestEveryCallOfTheSchemaIsExecuted(t *testing.T) {
	if len(executed) < 22 {
		t.Skip("it needs the metrics of the tests above")
	}
	var services []protoreflect.ServiceDescriptor
	for _, schema := range schemas {
		for at := range schema.Services().Len() {
			services = append(services, schema.Services().Get(at))
		}
	}
	want, have := map[string]bool{}, map[string]bool{}
	for _, service := range services {
		for at := range service.Methods().Len() {
			want[string(service.Methods().Get(at).Name())] = true
		}
	}
	for _, each := range executed {
		for name := range each.Metrics().Methods {
			have[name] = true
		}
	}
	equal(t, have, want)
}
