package gannet_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

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
