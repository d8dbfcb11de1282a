package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// The calls of Momento's published schemas, with grpc-go.
func TestMomentoItems(t *testing.T) {
	c := connectMomento(t)
	const scs = "cache_client.Scs/"
	const ttl = " ttl_milliseconds: 60000"
	c.is(scs+"Set", `cache_key: "k" cache_body: "v"`+ttl, `result: Ok`)
	c.is(scs+"Get", `cache_key: "k"`, `result: Hit cache_body: "v"`)
	c.is(scs+"Get", `cache_key: "none"`, `result: Miss`)
	c.streams(scs+"SetBatch", `items { cache_key: "a" cache_body: "1"`+ttl+` } items { cache_key: "b" cache_body: "2"`+
		ttl+` }`, `result: Ok`, `result: Ok`)
	c.streams(scs+"GetBatch", `items { cache_key: "b" } items { cache_key: "none" } items { cache_key: "a" }`,
		`result: Hit cache_body: "2"`, `result: Miss`, `result: Hit cache_body: "1"`)
	c.is(scs+"KeysExist", `cache_keys: ["a", "none", "b"]`, `exists: [true, false, true]`)
	c.is(scs+"Increment", `cache_key: "n" amount: 5`+ttl, `value: 5`)
	c.is(scs+"Increment", `cache_key: "n" amount: -7`+ttl, `value: -2`)
	c.is(scs+"SetIfNotExists", `cache_key: "k" cache_body: "w"`+ttl, `not_stored {}`)
	c.is(scs+"SetIfNotExists", `cache_key: "new" cache_body: "w"`+ttl, `stored {}`)
	for _, each := range []struct{ condition, result string }{
		{`absent {}`, `not_stored {}`},
		{`equal { value_to_check: "x" }`, `not_stored {}`},
		{`equal { value_to_check: "v" }`, `stored {}`},
		{`not_equal { value_to_check: "w" }`, `not_stored {}`},
		{`not_equal { value_to_check: "x" }`, `stored {}`},
		{`present_and_not_equal { value_to_check: "w" }`, `not_stored {}`},
		{`present_and_not_equal { value_to_check: "x" }`, `stored {}`},
		{`absent_or_equal { value_to_check: "x" }`, `not_stored {}`},
		{`absent_or_equal { value_to_check: "w" }`, `stored {}`},
		{`present {}`, `stored {}`},
	} {
		c.is(scs+"SetIf", `cache_key: "k" cache_body: "w"`+ttl+" "+each.condition, each.result)
	}
	c.is(scs+"SetIf", `cache_key: "none" cache_body: "w" present {}`+ttl, `not_stored {}`)
	c.is(scs+"UpdateTtl", `cache_key: "none" overwrite_to_milliseconds: 1000`, `missing {}`)
	c.is(scs+"UpdateTtl", `cache_key: "k" increase_to_milliseconds: 1000`, `not_set {}`)
	c.is(scs+"UpdateTtl", `cache_key: "k" decrease_to_milliseconds: 90000`, `not_set {}`)
	c.is(scs+"UpdateTtl", `cache_key: "k" increase_to_milliseconds: 90000`, `set {}`)
	c.is(scs+"UpdateTtl", `cache_key: "k" decrease_to_milliseconds: 20000`, `set {}`)
	c.is(scs+"UpdateTtl", `cache_key: "k" overwrite_to_milliseconds: 10000`, `set {}`)
	left := c.field(scs+"ItemGetTtl", `cache_key: "k"`, "found", "remaining_ttl_millis").Uint()
	if left == 0 || left > 10000 {
		t.Errorf("%d ms are left", left)
	}
	c.is(scs+"ItemGetTtl", `cache_key: "none"`, `missing {}`)
	c.is(scs+"ItemGetType", `cache_key: "none"`, `missing {}`)
	c.is(scs+"ItemGetType", `cache_key: "k"`, `found { item_type: SCALAR }`)
	c.is(scs+"Delete", `cache_key: "k"`, ``)
	c.is(scs+"Get", `cache_key: "k"`, `result: Miss`)

	const dictionary = `dictionary_name: "d" `
	c.is(scs+"DictionaryFetch", dictionary, `missing {}`)
	c.is(scs+"DictionaryGet", dictionary+`fields: "a"`, `missing {}`)
	c.is(scs+"DictionaryLength", dictionary, `missing {}`)
	c.is(scs+"DictionarySet", dictionary+`items { field: "a" value: "1" }`+ttl, ``)
	c.is(scs+"DictionaryIncrement", dictionary+`field: "a" amount: 41`+ttl, `value: 42`)
	c.is(scs+"DictionaryGet", dictionary+`fields: ["a", "x"]`,
		`found { items { result: Hit cache_body: "42" } items { result: Miss } }`)
	c.is(scs+"DictionaryFetch", dictionary, `found { items { field: "a" value: "42" } }`)
	c.is(scs+"DictionaryLength", dictionary, `found { length: 1 }`)
	c.is(scs+"DictionaryDelete", dictionary+`some { fields: "x" }`, ``)
	c.is(scs+"DictionaryDelete", dictionary+`all {}`, ``)
	c.is(scs+"DictionaryFetch", dictionary, `missing {}`)

	const set = `set_name: "s" `
	for _, name := range []string{"SetFetch", "SetLength"} {
		c.is(scs+name, set, `missing {}`)
	}
	c.is(scs+"SetSample", set+`limit: 1`, `missing {}`)
	c.is(scs+"SetPop", set+`count: 1`, `missing {}`)
	c.is(scs+"SetContains", set+`elements: "a"`, `missing {}`)
	c.is(scs+"SetUnion", set+`elements: ["a", "b", "c"]`+ttl, ``)
	c.is(scs+"SetContains", set+`elements: ["x", "a"]`, `found { contains: [false, true] }`)
	c.is(scs+"SetLength", set, `found { length: 3 }`)
	if sample := c.field(scs+"SetSample", set+`limit: 2`, "found", "elements").List(); sample.Len() != 2 {
		t.Errorf("a sample of 2 has %d elements", sample.Len())
	}
	c.is(scs+"SetDifference", set+`subtrahend { set { elements: "a" } }`, `found {}`)
	c.is(scs+"SetDifference", set+`minuend { elements: ["c", "x"] }`, `found {}`)
	c.is(scs+"SetFetch", set, `found { elements: "x" }`)
	c.is(scs+"SetPop", set+`count: 9`, `found { elements: "x" }`)
	c.is(scs+"SetUnion", set+`elements: "a"`+ttl, ``)
	c.is(scs+"SetDifference", set+`subtrahend { identity {} }`, `found {}`)
	c.is(scs+"SetFetch", set, `missing {}`)

	const list = `list_name: "l" `
	for _, name := range []string{"ListFetch", "ListLength", "ListPopFront", "ListPopBack", "ListRetain"} {
		c.is(scs+name, list, `missing {}`)
	}
	c.is(scs+"ListConcatenateBack", list+`values: ["c", "d"]`+ttl, `list_length: 2`)
	c.is(scs+"ListConcatenateFront", list+`values: ["a", "b"]`+ttl, `list_length: 4`)
	c.is(scs+"ListPushBack", list+`value: "e" truncate_front_to_size: 4`+ttl, `list_length: 4`)
	c.is(scs+"ListPushFront", list+`value: "z" truncate_back_to_size: 4`+ttl, `list_length: 4`)
	c.is(scs+"ListFetch", list, `found { values: ["z", "b", "c", "d"] }`)
	c.is(scs+"ListFetch", list+`inclusive_start: 1 exclusive_end: -1`, `found { values: ["b", "c"] }`)
	c.is(scs+"ListLength", list, `found { length: 4 }`)
	c.is(scs+"ListPopFront", list, `found { front: "z" list_length: 3 }`)
	c.is(scs+"ListPopBack", list, `found { back: "d" list_length: 2 }`)
	c.is(scs+"ListConcatenateBack", list+`values: ["b", "e", "f"]`+ttl, `list_length: 5`)
	c.is(scs+"ListRemove", list+`all_elements_with_value: "b"`, `found { list_length: 3 }`)
	c.is(scs+"ListErase", list+`some { ranges { begin_index: 1 count: 1 } }`, `found { list_length: 2 }`)
	c.is(scs+"ListRetain", list+`inclusive_start: 1`+ttl, `found { list_length: 1 }`)
	c.is(scs+"ListFetch", list, `found { values: "f" }`)
	c.is(scs+"ListErase", list+`all {}`, `found {}`)
	c.is(scs+"ListErase", list+`all {}`, `missing {}`)

	const sorted = `set_name: "z" `
	for _, name := range []string{"SortedSetFetch", "SortedSetLength", "SortedSetLengthByScore"} {
		c.is(scs+name, sorted, `missing {}`)
	}
	c.is(scs+"SortedSetGetScore", sorted+`values: "a"`, `missing {}`)
	c.is(scs+"SortedSetPut", sorted+`elements { value: "a" score: 1.5 } elements { value: "b" score: 2.5 }
		elements { value: "c" score: -1 }`+ttl, ``)
	c.is(scs+"SortedSetFetch", sorted+`order: DESCENDING by_index { inclusive_start_index: 1 }`,
		`found { values { values: ["a", "c"] } }`)
	c.is(scs+"SortedSetFetch", sorted+`with_scores: true by_score { min_score { score: 1.5 exclusive: true } count: -1 }`,
		`found { values_with_scores { elements { value: "b" score: 2.5 } } }`)
	c.is(scs+"SortedSetFetch", sorted+`by_score { offset: 1 count: 1 }`, `found { values { values: "a" } }`)
	c.is(scs+"SortedSetGetScore", sorted+`values: ["b", "x"]`,
		`found { elements { result: Hit score: 2.5 } elements { result: Miss } }`)
	c.is(scs+"SortedSetIncrement", sorted+`value: "c" amount: 2.25`+ttl, `score: 1.25`)
	c.is(scs+"SortedSetGetRank", sorted+`value: "b"`, `element_rank { result: Hit rank: 2 }`)
	c.is(scs+"SortedSetGetRank", sorted+`value: "b" order: DESCENDING`, `element_rank { result: Hit }`)
	c.is(scs+"SortedSetLength", sorted, `found { length: 3 }`)
	c.is(scs+"SortedSetLengthByScore", sorted+`inclusive_min: 1.25 exclusive_max: 2.5`, `found { length: 2 }`)
	c.is(scs+"SortedSetRemove", sorted+`some { values: ["a", "x"] }`, ``)
	c.is(scs+"SortedSetRemove", sorted+`all {}`, ``)
	c.is(scs+"SortedSetFetch", sorted, `missing {}`)

	c.is("cache_client.Ping/Ping", ``, ``)
	c.calledAllOf("cache_client.Scs", "cache_client.Ping")
}

func TestMomentoItemsAreThoseOfRedis(t *testing.T) {
	c := connectMomento(t)
	ctx := context.Background()
	c.is("cache_client.Scs/ListPushBack", `list_name: "l" value: "a" ttl_milliseconds: 60000`, `list_length: 1`)
	elements, err := c.plain.LRange(ctx, "l", 0, -1).Result()
	same(t, "elements", strings.Join(elements, " "), err, "a")
	must(t, c.plain.HSet(ctx, "d", "f", "v").Err())
	c.is("cache_client.Scs/DictionaryFetch", `dictionary_name: "d"`, `found { items { field: "f" value: "v" } }`)
	for key, kind := range map[string]string{"l": "LIST", "d": "DICTIONARY"} {
		c.is("cache_client.Scs/ItemGetType", fmt.Sprintf("cache_key: %q", key), "found { item_type: "+kind+" }")
	}
}

func TestMomentoCaches(t *testing.T) {
	c := connectMomento(t)
	const control = "control_client.ScsControl/"
	c.fails(codes.NotFound, "", "one", "cache_client.Scs/Get", `cache_key: "k"`)
	c.is(control+"CreateCache", `cache_name: "one"`, ``)
	c.fails(codes.AlreadyExists, "", "", control+"CreateCache", `cache_name: "one"`)
	names := c.field(control+"ListCaches", ``, "cache").List()
	if names.Len() != 2 {
		t.Errorf("there are %d caches", names.Len())
	}
	c.is(control+"FlushCache", `cache_name: "one"`, ``)
	c.is(control+"DeleteCache", `cache_name: "one"`, ``)
	c.fails(codes.NotFound, "", "", control+"DeleteCache", `cache_name: "one"`)
	c.fails(codes.NotFound, "", "", control+"FlushCache", `cache_name: "one"`)
}

func TestMomentoTopics(t *testing.T) {
	c := connectMomento(t)
	const topics = "cache_client.pubsub.Pubsub/"
	const news = `cache_name: "default" topic: "news" `
	subscribe := c.method(topics + "Subscribe")
	receive := func(stream grpc.ClientStream, kind string) []string {
		t.Helper()
		item, err := c.next(stream, subscribe)
		must(t, err)
		if which := item.WhichOneof(subscribe.Output().Oneofs().ByName("kind")); string(which.Name()) != kind {
			t.Fatalf("got %v, wanted %s", item, kind)
		}
		if kind != "item" {
			return nil
		}
		value := field(item, "item", "value", "text").String()
		number := field(item, "item", "topic_sequence_number").Uint()
		page := field(item, "item", "sequence_page").Uint()
		return []string{value, fmt.Sprint(number), fmt.Sprint(page)}
	}
	stream, err := c.open("default", topics+"Subscribe", news)
	must(t, err)
	receive(stream, "heartbeat")
	var second []string
	for at := 0; at < 3; at++ {
		c.is(topics+"Publish", news+fmt.Sprintf(`value { text: "%d" }`, at), ``)
		got := receive(stream, "item")
		if got[0] != fmt.Sprint(at) {
			t.Errorf("got %v, wanted message %d", got, at)
		}
		if at == 1 {
			second = got
		}
	}
	// A subscription that names a message begins with it.
	resumed := news + fmt.Sprintf("resume_at_topic_sequence_number: %s sequence_page: %s", second[1], second[2])
	again, err := c.open("default", topics+"Subscribe", resumed)
	must(t, err)
	receive(again, "heartbeat")
	for _, wanted := range []string{"1", "2"} {
		if got := receive(again, "item"); got[0] != wanted {
			t.Errorf("got %v, wanted message %s", got, wanted)
		}
	}
	// So does one of Redis.
	must(t, c.plain.Publish(context.Background(), "news", "of Redis").Err())
	if got := receive(stream, "item"); got[0] != "of Redis" {
		t.Errorf("got %v", got)
	}
	const absent = `cache_name: "absent" topic: "news" `
	c.fails(codes.NotFound, "", "absent", topics+"Publish", absent+`value { text: "v" }`)
	c.fails(codes.NotFound, "", "absent", topics+"Subscribe", absent)
	c.calledAllOf("cache_client.pubsub.Pubsub")
}

func TestMomentoSubscriptionWithMissingMessagesGetsADiscontinuity(t *testing.T) {
	c := connectMomento(t)
	const name = "cache_client.pubsub.Pubsub/Subscribe"
	const news = `cache_name: "default" topic: "gap" `
	stream, err := c.open("default", name, news)
	must(t, err)
	subscribe := c.method(name)
	_, err = c.next(stream, subscribe)
	must(t, err)
	ctx := context.Background()
	for at := 0; at < 1500; at++ {
		must(t, c.plain.Publish(ctx, "gap", fmt.Sprint(at)).Err())
	}
	first, err := c.next(stream, subscribe)
	must(t, err)
	number, page := field(first, "item", "topic_sequence_number").Uint(), field(first, "item", "sequence_page").Uint()
	resumed := news + fmt.Sprintf("resume_at_topic_sequence_number: %d sequence_page: %d", number, page)
	again, err := c.open("default", name, resumed)
	must(t, err)
	var gap, next uint64
	for next == 0 {
		item, err := c.next(again, subscribe)
		must(t, err)
		gap = max(gap, field(item, "discontinuity", "new_topic_sequence").Uint())
		next = field(item, "item", "topic_sequence_number").Uint()
	}
	if gap == 0 || gap != next || next != number+1500-1024 {
		t.Errorf("the gap after %d ends at %d, and the next message is %d", number, gap, next)
	}
}

func TestMomentoLeaderboards(t *testing.T) {
	c := connectMomento(t)
	const leaderboards = "leaderboard.Leaderboard/"
	const game = `leaderboard: "game" `
	c.is(leaderboards+"UpsertElements", game+`elements { id: 1 score: 15 } elements { id: 2 score: 20.5 }
		elements { id: 3 score: 30 } elements { id: 4 score: 30 }`, ``)
	c.is(leaderboards+"GetLeaderboardLength", game, `count: 4`)
	c.is(leaderboards+"GetByRank", game+`rank_range { end_exclusive: 2 }`,
		`elements { id: 1 score: 15 } elements { id: 2 score: 20.5 rank: 1 }`)
	c.is(leaderboards+"GetByScore", game+`score_range { min_inclusive: 15 max_exclusive: 30 } limit_elements: 9`,
		`elements { id: 1 score: 15 } elements { id: 2 score: 20.5 rank: 1 }`)
	c.is(leaderboards+"GetRank", game+`ids: [2, 9] order: DESCENDING`, `elements { id: 2 score: 20.5 rank: 2 }`)
	c.is(leaderboards+"GetCompetitionRank", game+`ids: [3, 2] order: DESCENDING`,
		`elements { id: 3 score: 30 } elements { id: 2 score: 20.5 rank: 2 }`)
	c.is(leaderboards+"RemoveElements", game+`ids: [1, 9]`, ``)
	c.is(leaderboards+"GetLeaderboardLength", game, `count: 3`)
	c.is(leaderboards+"DeleteLeaderboard", game, ``)
	c.is(leaderboards+"GetLeaderboardLength", game, ``)
	c.calledAllOf("leaderboard.Leaderboard")
}

func TestMomentoTokens(t *testing.T) {
	c := connectMomento(t)
	const get = "cache_client.Scs/Get"
	const set = "cache_client.Scs/Set"
	reading := `permissions { explicit { permissions { cache_permissions {
		role: CacheReadOnly all_caches {} item_selector { key_prefix: "a:" } } } } }`
	rights := func(token string) {
		t.Helper()
		c.token = token
		defer func() { c.token = "" }()
		c.is(get, `cache_key: "a:1"`, `result: Miss`)
		c.fails(codes.PermissionDenied, "", "default", get, `cache_key: "b"`)
		c.fails(codes.PermissionDenied, "", "default", set, `cache_key: "a:1" cache_body: "v" ttl_milliseconds: 1000`)
		c.fails(codes.PermissionDenied, "", "", "control_client.ScsControl/FlushCache", `cache_name: "default"`)
		c.fails(codes.PermissionDenied, "", "", "auth.Auth/GenerateApiToken", `never {} `+reading)
	}
	issued, err := c.try("", "auth.Auth/GenerateApiToken", `expires { valid_for_seconds: 300 } `+reading)
	must(t, err)
	token, refresh := field(issued, "api_key").String(), field(issued, "refresh_token").String()
	rights(token)
	pair := fmt.Sprintf("api_key: %q refresh_token: %q", token, refresh)
	rights(c.field("auth.Auth/RefreshApiToken", pair, "api_key").String())
	c.fails(codes.Unauthenticated, "", "", "auth.Auth/RefreshApiToken",
		fmt.Sprintf("api_key: %q refresh_token: %q", token, token))
	rights(c.field("token.Token/GenerateDisposableToken",
		`expires { valid_for_seconds: 300 } token_id: "ann" `+reading, "api_key").String())
	c.calledAllOf("token.Token")
}

func TestMomentoErrorsNameTheirLimits(t *testing.T) {
	c := connectMomento(t)
	const set = "cache_client.Scs/Set"
	value := func(mebibytes int) string {
		text := strings.Repeat("x", mebibytes<<20)
		return fmt.Sprintf(`cache_key: "k" cache_body: %q ttl_milliseconds: 1000`, text)
	}
	c.fails(codes.ResourceExhausted, "item_size_limit_exceeded", "default", set, value(3))
	c.fails(codes.ResourceExhausted, "request_size_limit_exceeded", "default", set, value(11))
	c.fails(codes.ResourceExhausted, "element_size_limit_exceeded", "default", "cache_client.Scs/SetUnion",
		fmt.Sprintf(`set_name: "s" elements: %q ttl_milliseconds: 1000`, strings.Repeat("x", 3<<20)))
	c.fails(codes.InvalidArgument, "", "default", "cache_client.Scs/Get", ``)
	must(t, c.plain.RPush(context.Background(), "l", "a").Err())
	c.fails(codes.FailedPrecondition, "", "default", "cache_client.Scs/Get", `cache_key: "l"`)
}
