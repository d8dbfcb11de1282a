package gannet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	gannet "gannet.dev/client"
	pb "gannet.dev/client/gannetv1"
)

// nextItem returns the next item of a subscription. Other events than heartbeats fail the test.
func nextItem(t *testing.T, s *gannet.Subscription) *gannet.TopicItem {
	t.Helper()
	for {
		event, err := s.Next()
		must(t, err)
		switch event := event.(type) {
		case *gannet.TopicItem:
			return event
		case *gannet.TopicDiscontinuity:
			t.Fatalf("discontinuity %+v", event)
		}
	}
}

func TestTopicCarriesTextsBytesAndThePublisher(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	subscription := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "carried"))
	issued := got[*gannet.DisposableToken](t)(client.GenerateDisposableToken(
		ctx, gannet.Permit(gannet.PermitTopics(gannet.WriteOnly, gannet.AllCaches(), gannet.OneName("carried"))),
		time.Minute, gannet.TokenID("ann"),
	))
	publisher := newClient(t, gannet.Token(shared.address(), issued.Token), gannet.LaptopV1())
	must(t, publisher.PublishText(ctx, "default", "carried", "text"))
	must(t, client.Publish(ctx, "default", "carried", []byte{0xff, 0}))
	text, data := nextItem(t, subscription), nextItem(t, subscription)
	page := text.Page
	equal(t, text, &gannet.TopicItem{Sequence: 1, Page: page, Value: []byte("text"), IsText: true, PublisherID: "ann"})
	equal(t, data, &gannet.TopicItem{Sequence: 2, Page: page, Value: []byte{0xff, 0}})
	wantCode(t, publisher.PublishText(ctx, "default", "other", "x"), gannet.CodePermissionDenied)
	_, err := publisher.Subscribe(ctx, "default", "carried")
	wantCode(t, err, gannet.CodePermissionDenied)

	// A later subscription continues after an item, and one of an unknown page learns of the gap.
	later := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "carried", text.Next()))
	equal(t, nextItem(t, later), data)
	equal(t, later.Position(), data.Next())
	unknown := gannet.TopicPosition{Page: page + 1, Sequence: 9}
	lost := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "carried", unknown))
	for event, err := range lost.All() {
		must(t, err)
		if gap, is := event.(*gannet.TopicDiscontinuity); is {
			equal(t, gap, &gannet.TopicDiscontinuity{LastSequence: 8, NewSequence: 1, NewPage: page})
			lost.Close()
		}
	}
}

func TestSlowSubscriberHoldsBackTheStreamAndNotMemory(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	subscription := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "slow"))
	value := bytes.Repeat([]byte("v"), 10_000)
	const messages = 1500
	for range messages {
		must(t, client.Publish(ctx, "default", "slow", value))
	}
	// The server has dropped what was neither read nor in its log of 1 MiB.
	held, gaps, last := 0, 0, uint64(0)
	for last < messages {
		event, err := subscription.Next()
		must(t, err)
		switch event := event.(type) {
		case *gannet.TopicItem:
			if last = event.Sequence; gaps == 0 {
				held += len(event.Value)
			}
		case *gannet.TopicDiscontinuity:
			gaps++
		}
	}
	if gaps == 0 || held > 4<<20 {
		t.Fatalf("%d gaps; the client held %d bytes", gaps, held)
	}
}

func TestSubscriptionsTakeNoPlaceOfRequests(t *testing.T) {
	ctx := testContext(t)
	between := newProxy(t, shared.address(), nil, nil)
	client := newClient(t, gannet.NoToken(between.address()), gannet.LaptopV1().WithRequestsInFlightMax(1))
	var all []*gannet.Subscription
	for range 150 {
		all = append(all, got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "many")))
	}
	must(t, client.PublishText(ctx, "default", "many", "v"))
	equal(t, between.accepted(), 3) // one for the requests, and one for each 100 subscriptions
	equal(t, client.Metrics().InFlight, 0)
	for _, each := range all {
		equal(t, nextItem(t, each).ValueString(), "v")
		each.Close()
	}
	_, err := all[0].Next()
	wantCode(t, err, gannet.CodeCancelled)
}

func TestSubscriptionOutlivesTheDeadlineOfCalls(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, gannet.NoToken(shared.address()), gannet.LaptopV1().WithDeadline(400*time.Millisecond))
	subscription := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "long"))
	time.AfterFunc(time.Second, func() { _ = client.PublishText(ctx, "default", "long", "v") })
	equal(t, nextItem(t, subscription).ValueString(), "v")
	equal(t, client.Metrics().Resumes, uint64(0))
}

func TestSubscriptionEndsWithItsContextAndItsClient(t *testing.T) {
	client := newClient(t, gannet.NoToken(shared.address()), gannet.LaptopV1())
	ctx, cancel := context.WithCancel(context.Background())
	cancelled := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "ends"))
	closed := got[*gannet.Subscription](t)(client.Subscribe(testContext(t), "default", "ends"))
	time.AfterFunc(30*time.Millisecond, cancel)
	for event, err := range cancelled.All() {
		if _, is := event.(*gannet.TopicHeartbeat); !is || err != nil {
			t.Fatalf("%v %v", event, err)
		}
	}
	time.AfterFunc(30*time.Millisecond, client.Close)
	for err := error(nil); err == nil; {
		if _, err = closed.Next(); err != nil {
			wantMessage(t, wantCode(t, err, gannet.CodeCancelled), "the client is closed")
		}
	}
	_, err := client.Subscribe(testContext(t), "default", "ends")
	wantCode(t, err, gannet.CodeCancelled)
}

func TestClosedSubscriptionsFreeTheirStreams(t *testing.T) {
	ctx := testContext(t)
	between := newProxy(t, shared.address(), nil, nil)
	// The server closes a connection that resets more than 120 streams at once.
	client := newClient(t, gannet.NoToken(between.address()), gannet.LaptopV1().WithStreamsPerConnection(10))
	lasting := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "closed"))
	for range 10 {
		var all []*gannet.Subscription
		for range 9 {
			all = append(all, got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "closed")))
		}
		for _, each := range all {
			each.Close()
		}
		// A subscription that closes gives its place back when its stream has ended.
		eventually(t, "closed subscriptions give their places back", func() bool { return gannet.OpenStreams(client) == 1 })
	}
	if connections := between.accepted(); connections > 5 {
		t.Fatalf("91 subscriptions opened %d connections", connections)
	}
	lasting.Close()
	eventually(t, "a connection is closed with its last stream", func() bool {
		return gannet.StreamConnections(client) == 0
	})
	got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "closed")).Close()
}

func TestSubscriptionThatIsNotConfirmed(t *testing.T) {
	own := ownServer(t)
	client := newClient(t, gannet.NoToken(own.address()), gannet.LaptopV1().WithDeadline(300*time.Millisecond))
	open := got[*gannet.Subscription](t)(client.Subscribe(testContext(t), "default", "slow"))
	own.pause(t)
	_, err := client.Subscribe(testContext(t), "default", "slow")
	wantCode(t, err, gannet.CodeTimeout)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	_, err = client.Subscribe(ctx, "default", "slow")
	wantCode(t, err, gannet.CodeCancelled)
	short, cancelShort := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancelShort()
	_, err = client.Subscribe(short, "default", "slow")
	wantCode(t, err, gannet.CodeTimeout)
	own.kill()
	must(t, own.start())
	must(t, client.Connect(testContext(t)))
	must(t, client.PublishText(testContext(t), "default", "slow", "v"))
	open.Close()
}

func TestSubscriptionToAServerThatIsDown(t *testing.T) {
	port, err := freePort()
	must(t, err)
	configuration := gannet.LaptopV1().WithDeadline(500 * time.Millisecond)
	client := newClient(t, gannet.NoToken(fmt.Sprintf("127.0.0.1:%d", port)), configuration)
	begun := time.Now()
	_, err = client.Subscribe(testContext(t), "default", "down")
	wantMessage(t, wantCode(t, err, gannet.CodeUnavailable), "no server listens there", "gannet serve --grpc")
	if took := time.Since(begun); took > 5*time.Second {
		t.Fatalf("it took %v", took)
	}
	_, err = sharedClient(t).Subscribe(testContext(t), "default", "")
	wantCode(t, err, gannet.CodeInvalidArgument)
}

func TestOneClientComputesAValueWhileTheOthersWait(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	var computed atomic.Int64
	compute := func(context.Context) ([]byte, error) {
		time.Sleep(50 * time.Millisecond)
		return fmt.Append(nil, computed.Add(1)), nil
	}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			value, err := client.GetOrCompute(ctx, "default", "k", time.Minute, compute)
			if err != nil || string(value) != "1" {
				t.Errorf("%q %v", value, err)
			}
		})
	}
	callers.Wait()
	equal(t, computed.Load(), int64(1))
	equal(t, got[gannet.FoundResult](t)(client.LeaseStale(ctx, "default", "k", time.Minute)), &gannet.Found{})
	// The others get the stale value while one of them computes.
	won := got[gannet.LeaseResult](t)(client.LeaseGet(ctx, "default", "k")).(*gannet.LeaseWon)
	equal(t, string(won.Stale), "1")
	equal(t, string(got[[]byte](t)(client.GetOrCompute(ctx, "default", "k", time.Minute, compute))), "1")
	result := got[gannet.ConditionalSetResult](t)(client.LeaseSet(ctx, "default", "k", won.Token, []byte("2")))
	equal(t, result, &gannet.Stored{})
	failing := errors.New("the database is down")
	_, err := client.GetOrCompute(ctx, "default", "other", time.Minute,
		func(context.Context) ([]byte, error) { return nil, failing }, gannet.LeaseTime(50*time.Millisecond))
	if !errors.Is(err, failing) {
		t.Fatal(err)
	}
	// The lease of the failed computation ends by its time.
	value := got[[]byte](t)(client.GetOrCompute(ctx, "default", "other", time.Minute, compute))
	equal(t, string(value), "2")
	// A value that ends soon is computed again by one client.
	again := got[gannet.LeaseResult](t)(client.LeaseGet(ctx, "default", "k", gannet.Recache(time.Hour)))
	if won, is := again.(*gannet.LeaseWon); !is || string(won.Stale) != "2" {
		t.Fatalf("%#v", again)
	}
}

// The wait for the value of another client ends at the deadline of the client, or when its caller cancels it.
func TestWaitForAComputedValueEnds(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	compute := func(context.Context) ([]byte, error) { return nil, errors.New("the other client computes it") }
	if _, won := got[gannet.LeaseResult](t)(client.LeaseGet(ctx, "default", "waited")).(*gannet.LeaseWon); !won {
		t.Fatal("another client has the lease")
	}
	short := newClient(t, gannet.NoToken(shared.address()), gannet.LaptopV1().WithDeadline(300*time.Millisecond))
	begun := time.Now()
	_, err := short.GetOrCompute(ctx, "default", "waited", time.Minute, compute)
	wantCode(t, err, gannet.CodeTimeout)
	if passed := time.Since(begun); passed < 290*time.Millisecond || passed > 4*time.Second {
		t.Fatal(passed)
	}
	cancelled, cancel := context.WithCancel(ctx)
	time.AfterFunc(200*time.Millisecond, cancel)
	_, err = client.GetOrCompute(cancelled, "default", "waited", time.Minute, compute)
	wantCode(t, err, gannet.CodeCancelled)
	// The time of the computation does not count.
	slow := func(context.Context) ([]byte, error) {
		time.Sleep(400 * time.Millisecond)
		return []byte("v"), nil
	}
	value := got[[]byte](t)(short.GetOrCompute(ctx, "default", "slow", time.Minute, slow))
	equal(t, string(value), "v")
	hit := got[gannet.LeaseResult](t)(client.LeaseGet(ctx, "default", "slow"))
	if _, stored := hit.(*gannet.LeaseHit); !stored {
		t.Fatalf("%#v", hit)
	}
}

// The server takes 0 ms for no change of the time to live, for its default or for none.
func TestTimeThatHasPassedIsRefusedAndNotForgotten(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	for _, passed := range []time.Duration{0, -time.Second, time.Millisecond - 1} {
		_, err := client.RecordPut(ctx, "default", "passed", gannet.Bins{"a": gannet.BinInteger(1)}, gannet.TTL(passed))
		wantCode(t, err, gannet.CodeInvalidArgument)
		_, err = client.RecordTouch(ctx, "default", "passed", gannet.TTL(passed))
		wantCode(t, err, gannet.CodeInvalidArgument)
		for _, option := range []gannet.LeaseOption{gannet.Recache(passed), gannet.LeaseTime(passed)} {
			_, err = client.LeaseGet(ctx, "default", "passed", option)
			wantCode(t, err, gannet.CodeInvalidArgument)
		}
		if passed != 0 {
			_, err = client.LeaseStale(ctx, "default", "passed", passed)
			wantCode(t, err, gannet.CodeInvalidArgument)
		}
		wantCode(t, client.Set(ctx, "default", "passed", []byte("v"), gannet.TTL(passed)), gannet.CodeInvalidArgument)
	}
	equal(t, got[gannet.RecordResult](t)(client.RecordGet(ctx, "default", "passed")), gannet.RecordResult(&gannet.Miss{}))
}

// gRPC reports a name that it cannot encode as a failure of the server, which is repeated.
func TestNameThatCannotBeSentIsAMistakeOfTheCaller(t *testing.T) {
	client, ctx := newClient(t, gannet.NoToken(shared.address()), gannet.LaptopV1()), testContext(t)
	const bad = "\xff"
	refused := func(err error, cause string) {
		t.Helper()
		wantCode(t, err, gannet.CodeInvalidArgument)
		if !strings.Contains(err.Error(), cause) {
			t.Errorf("%q is not in: %v", cause, err)
		}
	}
	const notText = ": a name, filter or text is not UTF-8; pass UTF-8"
	_, err := client.LeaderboardLength(ctx, "default", bad)
	refused(err, notText)
	_, err = client.Subscribe(ctx, "default", bad)
	refused(err, notText)
	refused(client.PublishText(ctx, "default", "t", bad), notText)
	_, err = client.RecordGet(ctx, "default", "r", gannet.Filter(bad))
	refused(err, notText)
	_, err = client.RecordPut(ctx, "default", "r", gannet.Bins{"a": gannet.BinText(bad)})
	refused(err, notText)
	refused(client.CreateCache(ctx, bad), notText)
	for _, cache := range []string{"Köln", bad, "a\n"} {
		_, err = client.Get(ctx, cache, "k")
		refused(err, ": the name of the cache is not printable ASCII; correct the name")
		_, err = client.Subscribe(ctx, cache, "t")
		refused(err, ": the name of the cache is not printable ASCII; correct the name")
	}
	equal(t, client.Metrics().Retries, uint64(0))
	must(t, client.Set(ctx, "default", bad, []byte(bad)))
	got[uint32](t)(client.RecordPut(ctx, "default", bad+"r", gannet.Bins{bad: gannet.BinBinary(bad)}))
}

// Each connection has memory of its own.
func TestNumberOfConnectionsIsBounded(t *testing.T) {
	for _, requests := range []int{100_001, math.MaxInt} {
		_, err := gannet.NewClient(context.Background(), gannet.NoToken(shared.address()),
			gannet.LaptopV1().WithRequestsInFlightMax(requests), time.Hour)
		wantCode(t, err, gannet.CodeInvalidArgument)
	}
}

func TestRecordsKeepTheTypesOfTheirBins(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	bins := gannet.Bins{
		"integer": gannet.BinInteger(-1 << 63), "zero": gannet.BinNumber(0), "no": gannet.BinBoolean(false),
		"text": gannet.BinText(""), "binary": gannet.BinBinary{0xff, 0},
		"list": gannet.BinList{
			gannet.BinInteger(1), gannet.BinMap{"k": gannet.BinList{gannet.BinText("deep"), gannet.BinNumber(2)}},
		},
	}
	revision := got[uint32](t)(client.RecordPut(ctx, "default", "r", bins, gannet.TTL(time.Hour), gannet.WhenAbsent))
	equal(t, revision, uint32(1))
	hit := got[gannet.RecordResult](t)(client.RecordGet(ctx, "default", "r")).(*gannet.RecordHit)
	equal(t, hit.Bins, bins)
	equal(t, hit.Key, "r")
	if left := time.Until(hit.ExpiresAt); left < 50*time.Minute || left > time.Hour {
		t.Fatalf("it expires in %v", left)
	}
	appended := gannet.Bins{"text": gannet.BinText("a"), "binary": gannet.BinBinary{1}}
	equal(t, got[uint32](t)(client.RecordAppend(ctx, "default", "r", appended, gannet.Filter("zero == 0"))), uint32(2))
	equal(t, got[uint32](t)(client.RecordTouch(ctx, "default", "r", gannet.NoTTL)), uint32(3))
	some := got[gannet.RecordResult](t)(client.RecordGet(ctx, "default", "r", gannet.OnlyBins{"text", "binary"}))
	hit = some.(*gannet.RecordHit)
	equal(t, hit.Bins, gannet.Bins{"text": gannet.BinText("a"), "binary": gannet.BinBinary{0xff, 0, 1}})
	equal(t, hit.ExpiresAt.IsZero(), true)
	for _, each := range []struct {
		code    gannet.Code
		bins    gannet.Bins
		options []gannet.RecordChangeOption
	}{
		{gannet.CodeAlreadyExists, gannet.Bins{"a": gannet.BinInteger(1)}, []gannet.RecordChangeOption{gannet.WhenAbsent}},
		{gannet.CodeAborted, gannet.Bins{"a": gannet.BinInteger(1)}, []gannet.RecordChangeOption{gannet.IfRevision(1)}},
		{gannet.CodeFailedPrecondition, gannet.Bins{"a": gannet.BinInteger(1)},
			[]gannet.RecordChangeOption{gannet.Filter("zero > 9")}},
		{gannet.CodeInvalidArgument, gannet.Bins{"a": nil}, nil},
		{gannet.CodeInvalidArgument, gannet.Bins{"": gannet.BinInteger(1)}, nil},
	} {
		_, err := client.RecordPut(ctx, "default", "r", each.bins, each.options...)
		equal(t, wantCode(t, err, each.code).Retryable, false)
	}
	_, err := client.RecordTouch(ctx, "default", "none", gannet.TTL(time.Minute))
	wantMessage(t, wantCode(t, err, gannet.CodeNotFoundRecord), "RecordPut")
	_, err = client.RecordTouch(ctx, "absent", "none", gannet.TTL(time.Minute))
	wantMessage(t, wantCode(t, err, gannet.CodeNotFoundCache), "CreateCache")
}

func TestRecordsOfASetAreReadInPages(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	for number := range 50 {
		bins := gannet.Bins{"n": gannet.BinInteger(number)}
		got[uint32](t)(client.RecordPut(ctx, "default", fmt.Sprintf("page:%d", number), bins, gannet.InSet("pages")))
	}
	found, pages := map[string]bool{}, 0
	for record, err := range gannet.AllPages(func(cursor gannet.Cursor) (*gannet.RecordPage, error) {
		pages++
		return client.RecordScan(ctx, "default", "pages", cursor, gannet.CountMax(10), gannet.Filter("n >= 10"))
	}) {
		must(t, err)
		found[record.Key] = true
	}
	if len(found) != 40 || !found["page:49"] || pages < 2 {
		t.Fatalf("%d records in %d pages", len(found), pages)
	}
	query := func(cursor gannet.Cursor) (*gannet.RecordPage, error) {
		values := gannet.WithinRange(gannet.BinInteger(3), gannet.BinInteger(5))
		return client.RecordQuery(ctx, "default", "pages", "n", values, cursor)
	}
	_, err := query("")
	wantCode(t, err, gannet.CodeFailedPrecondition)
	redis(t, shared, "REC.INDEX CREATE pages n INT")
	keys := map[string]bool{}
	eventually(t, "the index is complete", func() bool { _, err := query(""); return err == nil })
	for record, err := range gannet.AllPages(query) {
		must(t, err)
		keys[record.Key] = true
	}
	equal(t, keys, map[string]bool{"page:3": true, "page:4": true, "page:5": true})
	page := got[*gannet.RecordPage](t)(client.RecordQuery(
		ctx, "default", "pages", "n", gannet.EqualTo(gannet.BinInteger(7)), gannet.OnlyBins{"n"},
	))
	equal(t, page.Records[0].Key, "page:7")
	for _, err := range gannet.AllPages(func(gannet.Cursor) (*gannet.RecordPage, error) {
		return client.RecordScan(ctx, "default", "pages", gannet.Cursor("wrong"))
	}) {
		wantCode(t, err, gannet.CodeInvalidArgument)
	}
	equal(t, got[gannet.FoundResult](t)(client.RecordDelete(ctx, "default", "page:7", gannet.IfRevision(1))),
		&gannet.Found{})
	equal(t, got[uint32](t)(client.RecordAdd(ctx, "default", "sum", gannet.Bins{"n": gannet.BinNumber(0.5)})), uint32(1))
}

func TestLeaderboardsHaveBothRanks(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	must(t, client.LeaderboardUpsert(ctx, "default", "game", map[uint32]float64{1: 1, 2: 2, 3: 2, 1<<32 - 1: -0.5}))
	equal(t, got[int](t)(client.LeaderboardLength(ctx, "default", "game")), 4)
	ids := []uint32{3, 7, 2}
	equal(t, got[[]gannet.Ranked](t)(client.LeaderboardGetRank(ctx, "default", "game", ids, gannet.Descending)),
		[]gannet.Ranked{{3, 0, 2}, {2, 1, 2}})
	competition := got[[]gannet.Ranked](t)(
		client.LeaderboardGetCompetitionRank(ctx, "default", "game", ids, gannet.Descending))
	equal(t, competition, []gannet.Ranked{{3, 0, 2}, {2, 0, 2}})
	equal(t, got[[]gannet.Ranked](t)(client.LeaderboardGetByRank(ctx, "default", "game", 0, 1, gannet.Ascending)),
		[]gannet.Ranked{{1<<32 - 1, 0, -0.5}})
	from := gannet.ScoreRange{}.WithLeast(1).WithOffset(1).WithCount(1)
	equal(t, got[[]gannet.Ranked](t)(client.LeaderboardGetByScore(ctx, "default", "game", from, gannet.Ascending)),
		[]gannet.Ranked{{2, 2, 2}})
	for _, wrong := range []gannet.ScoreRange{
		gannet.ScoreRange{}.WithLeastExclusive(1), gannet.ScoreRange{}.WithGreatest(1),
	} {
		_, err := client.LeaderboardGetByScore(ctx, "default", "game", wrong, gannet.Ascending)
		wantMessage(t, wantCode(t, err, gannet.CodeInvalidArgument), "WithGreatestExclusive")
	}
	must(t, client.LeaderboardRemove(ctx, "default", "game", 1, 7))
	must(t, client.LeaderboardDelete(ctx, "default", "game"))
	equal(t, got[int](t)(client.LeaderboardLength(ctx, "default", "game")), 0)
}

func TestTokenMayDoWhatItsPermissionsSay(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	must(t, client.Set(ctx, "default", "a:1", []byte("v")))
	permissions := gannet.Permit(
		gannet.PermitItems(gannet.ReadOnly, gannet.OneCache("default"), gannet.NamesWithPrefix("a:")),
		gannet.PermitItems(gannet.ReadWrite, gannet.AllCaches(), gannet.OneName("b")),
	)
	pair := got[*gannet.APIToken](t)(client.GenerateAPIToken(ctx, permissions, time.Hour))
	if left := time.Until(pair.ValidUntil); left < 50*time.Minute || left > time.Hour {
		t.Fatalf("it is valid for %v", left)
	}
	renewed := got[*gannet.APIToken](t)(client.RefreshAPIToken(ctx, pair))
	for _, each := range []*gannet.APIToken{pair, renewed} {
		limited := newClient(t, gannet.Token(shared.address(), each.Token), gannet.LaptopV1())
		equal(t, got[gannet.GetResult](t)(limited.Get(ctx, "default", "a:1")), &gannet.GetHit{Value: []byte("v")})
		must(t, limited.Set(ctx, "default", "b", []byte("v")))
		for _, err := range []error{
			limited.Set(ctx, "default", "a:1", []byte("w")),
			limited.Set(ctx, "default", "c", []byte("w")),
			limited.FlushCache(ctx, "default"),
		} {
			wantCode(t, err, gannet.CodePermissionDenied)
		}
		_, err := limited.GenerateAPIToken(ctx, gannet.Superuser(), time.Hour)
		wantCode(t, err, gannet.CodePermissionDenied)
	}
	all := got[*gannet.APIToken](t)(client.GenerateAPIToken(ctx, gannet.Superuser(), 0))
	equal(t, all.ValidUntil.IsZero(), true)
	super := newClient(t, gannet.Token(shared.address(), all.Token), gannet.LaptopV1())
	short := got[*gannet.DisposableToken](t)(super.GenerateDisposableToken(ctx, permissions, time.Second))
	for _, secret := range []string{pair.Token, pair.RefreshToken, short.Token} {
		if text := fmt.Sprintf("%v %+v %#v %v %#v", pair, *pair, *pair, *short, *short); strings.Contains(text, secret) {
			t.Fatalf("a token is printed: %s", text)
		}
	}
	ended := newClient(t, gannet.Token(shared.address(), short.Token), gannet.LaptopV1())
	eventually(t, "the token ends", func() bool {
		_, err := ended.Get(ctx, "default", "a:1")
		code, _ := gannet.CodeOf(err)
		return code == gannet.CodeUnauthenticated
	})
}

// nearClient returns a client of the shared server with a near cache whose watch has begun.
func nearClient(t *testing.T, bounds gannet.NearCache) *gannet.Client {
	t.Helper()
	configuration := gannet.LaptopV1().WithMetrics(true).WithNearCache(bounds)
	client := newClient(t, gannet.NoToken(shared.address()), configuration)
	executed = append(executed, client)
	must(t, client.WatchNearCache(testContext(t), "default"))
	return client
}

func TestNearCacheStaysWithinItsBounds(t *testing.T) {
	other, ctx := sharedClient(t), testContext(t)
	key := func(number int) string { return fmt.Sprintf("key:%02d", number) }
	for number := range 20 {
		must(t, other.Set(ctx, "default", key(number), bytes.Repeat([]byte("v"), 94)))
	}
	must(t, other.Set(ctx, "default", "large", make([]byte, 2000)))
	must(t, other.Set(ctx, "default", "empty", nil))
	prefixes := []string{"key:", "large", "empty"}
	client := nearClient(t, gannet.NearCache{EntriesMax: 10, BytesMax: 1_000, Prefixes: prefixes})
	read := func(key string) []byte {
		return got[gannet.GetResult](t)(client.Get(ctx, "default", key)).(*gannet.GetHit).Value
	}
	hits := func(want uint64) { t.Helper(); equal(t, client.Metrics().NearCache.Hits, want) }
	for number := range 20 {
		read(key(number))
	}
	equal(t, client.Metrics().NearCache.Entries, 10)
	equal(t, client.Metrics().NearCache.Bytes, 1_000)
	read(key(10))
	hits(1)
	read(key(9)) // was least recently used
	hits(1)
	read(key(10)) // is in use, unlike key 11
	hits(2)
	read(key(11))
	hits(2)
	read("large")
	read("large")
	hits(2)
	read("empty")
	equal(t, len(read("empty")), 0)
	hits(3)
	copy(read(key(10)), "changed by the caller")
	equal(t, read(key(10))[0], byte('v'))
	metrics := client.Metrics().NearCache
	if metrics.Entries > 10 || metrics.Bytes > 1_000 || metrics.Watching != 1 || metrics.Misses != 25 {
		t.Fatalf("%+v", metrics)
	}
	// A key without one of the prefixes is not copied.
	must(t, other.Set(ctx, "default", "other", []byte("v")))
	read("other")
	read("other")
	equal(t, client.Metrics().NearCache.Hits, metrics.Hits)
}

func TestNearCacheLearnsOfChangesByOtherProtocols(t *testing.T) {
	other, ctx := sharedClient(t), testContext(t)
	client := nearClient(t, gannet.NearCache{EntriesMax: 10, BytesMax: 1_000})
	for round := range 5 {
		value := fmt.Sprint(round)
		redis(t, shared, "SET k "+value)
		eventually(t, "the new value is read", func() bool {
			hit, is := got[gannet.GetResult](t)(client.Get(ctx, "default", "k")).(*gannet.GetHit)
			return is && hit.ValueString() == value
		})
		eventually(t, "there is a copy", func() bool {
			got[gannet.GetResult](t)(client.Get(ctx, "default", "k"))
			return client.Metrics().NearCache.Entries == 1
		})
	}
	must(t, client.SetBatch(ctx, "default", []gannet.Item{{Key: "k", Value: []byte("own")}}))
	equal(t, got[gannet.GetResult](t)(client.Get(ctx, "default", "k")), &gannet.GetHit{Value: []byte("own")})
	must(t, other.FlushCache(ctx, "default"))
	eventually(t, "all copies are dropped", func() bool {
		_, is := got[gannet.GetResult](t)(client.Get(ctx, "default", "k")).(*gannet.GetMiss)
		return is
	})
	if metrics := client.Metrics().NearCache; metrics.Invalidations < 4 {
		t.Fatalf("%+v", metrics)
	}
}

func TestSubscriptionBeyondALimitEndsWithoutAnotherAttempt(t *testing.T) {
	own, ctx := ownServer(t), testContext(t)
	asked := &faults{}
	configuration := gannet.LaptopV1().WithMiddleware(asked)
	client := newClient(t, gannet.NoToken(own.address()), configuration)
	// A second attempt would succeed.
	asked.ask(table{"return-error": "resource-exhausted", "error-rpcs": "topic-subscribe", "error-count": 1})
	_, err := client.Subscribe(ctx, "default", "news")
	equal(t, wantCode(t, err, gannet.CodeLimitExceeded).Retryable, false)
	asked.ask(table{
		"stream-error": "resource-exhausted", "stream-error-rpcs": "topic-subscribe", "stream-error-message-limit": 1,
	})
	subscription := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "news"))
	asked.ask(table{})
	must(t, client.PublishText(ctx, "default", "news", "a"))
	must(t, client.PublishText(ctx, "default", "news", "b"))
	equal(t, nextItem(t, subscription).ValueString(), "a")
	for err = nil; err == nil; {
		_, err = subscription.Next()
	}
	wantCode(t, err, gannet.CodeLimitExceeded)
	equal(t, client.Metrics().Resumes, uint64(0))
}

func TestNearCacheCopiesAgainAfterALostWatch(t *testing.T) {
	ctx := testContext(t)
	other := sharedClient(t)
	between := newProxy(t, shared.address(), nil, nil)
	configuration := gannet.LaptopV1().WithNearCache(gannet.NearCache{EntriesMax: 10, BytesMax: 1_000})
	client := newClient(t, gannet.NoToken(between.address()), configuration)
	must(t, client.WatchNearCache(ctx, "default"))
	must(t, other.Set(ctx, "default", "k", []byte("v")))
	get := func() { got[gannet.GetResult](t)(client.Get(ctx, "default", "k")) }
	entries := func() int { return client.Metrics().NearCache.Entries }
	eventually(t, "there is a copy", func() bool { get(); return entries() == 1 })
	between.cut()
	eventually(t, "the copy is dropped", func() bool { return entries() == 0 })
	eventually(t, "there is a copy again", func() bool { get(); return entries() == 1 })
	equal(t, client.Metrics().NearCache.Watching, 1)
}

func TestSilentServerEndsCopiesAndSubscriptions(t *testing.T) {
	own, ctx := ownServer(t), testContext(t)
	configuration := gannet.LaptopV1().WithNearCache(gannet.NearCache{EntriesMax: 10, BytesMax: 1_000})
	client := newClient(t, gannet.NoToken(own.address()), configuration)
	gannet.SetSilence(client, 500*time.Millisecond)
	must(t, client.WatchNearCache(ctx, "default"))
	must(t, client.Set(ctx, "default", "k", []byte("v")))
	eventually(t, "there is a copy", func() bool {
		got[gannet.GetResult](t)(client.Get(ctx, "default", "k"))
		return client.Metrics().NearCache.Entries == 1
	})
	subscription := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "silent"))
	must(t, client.PublishText(ctx, "default", "silent", "a"))
	equal(t, nextItem(t, subscription).ValueString(), "a")
	time.AfterFunc(time.Second, func() { _ = client.PublishText(ctx, "default", "silent", "b") })
	equal(t, nextItem(t, subscription).ValueString(), "b")
	if resumes := client.Metrics().Resumes; resumes == 0 {
		t.Fatal("the silent stream was not replaced")
	}
	own.pause(t)
	eventually(t, "the copies are dropped", func() bool {
		near := client.Metrics().NearCache
		return near.Entries == 0 && near.Watching == 0
	})
}

func TestSilentStreamsAreReopenedOnTheConnectionThatIsDead(t *testing.T) {
	ctx, other := testContext(t), sharedClient(t)
	between := newProxy(t, shared.address(), nil, nil)
	// Neither pings nor calls find the dead connection: only the streams notice it.
	configuration := gannet.LaptopV1().WithKeepalive(0, 0, false).
		WithNearCache(gannet.NearCache{EntriesMax: 10, BytesMax: 1_000})
	client := newClient(t, gannet.NoToken(between.address()), configuration)
	gannet.SetSilence(client, 6*time.Second)
	must(t, client.WatchNearCache(ctx, "default"))
	all := gannet.TopicPosition{Sequence: 1}
	subscription := got[*gannet.Subscription](t)(client.Subscribe(ctx, "default", "dead", all))
	must(t, other.PublishText(ctx, "default", "dead", "a"))
	equal(t, nextItem(t, subscription).ValueString(), "a")
	before := between.accepted()
	between.swallow()
	must(t, other.PublishText(ctx, "default", "dead", "b"))
	equal(t, nextItem(t, subscription).ValueString(), "b")
	if between.accepted() == before {
		t.Fatal("the subscription has no other connection")
	}
	eventually(t, "the near cache is watched again", func() bool {
		return client.Metrics().NearCache.Watching == 1 && client.Metrics().Resumes == 2
	})
}

func TestNearCacheServesACopyAfterTheProcessWasStopped(t *testing.T) {
	ctx := testContext(t)
	client := nearClient(t, gannet.NearCache{EntriesMax: 10, BytesMax: 1_000})
	must(t, client.Set(ctx, "default", "k", []byte("v")))
	get := func() { got[gannet.GetResult](t)(client.Get(ctx, "default", "k")) }
	near := func() gannet.NearCacheMetrics { return client.Metrics().NearCache }
	eventually(t, "there is a copy", func() bool { get(); return near().Entries == 1 })
	hits := near().Hits
	get()
	equal(t, near().Hits, hits+1)
	gannet.AgeNearCache(client, "default", 16*time.Second)
	get()
	get()
	equal(t, near().Hits, hits+1)
	equal(t, near().Entries, 0)
	// The next heartbeat shows that the watch works.
	eventually(t, "there is a copy again", func() bool { get(); return near().Entries == 1 })
}

func TestNamesOfAbsentCachesTakeAllWatches(t *testing.T) {
	ctx := testContext(t)
	configuration := gannet.LaptopV1().WithNearCache(gannet.NearCache{EntriesMax: 10, BytesMax: 1_000})
	client := newClient(t, gannet.NoToken(shared.address()), configuration)
	for each := range 20 {
		_, err := client.Get(ctx, fmt.Sprintf("absent-%d", each), "k")
		wantCode(t, err, gannet.CodeNotFoundCache)
		if each < 16 {
			// The watch was refused too.
			wantCode(t, client.WatchNearCache(ctx, fmt.Sprintf("absent-%d", each)), gannet.CodeNotFoundCache)
		}
	}
	must(t, client.WatchNearCache(ctx, "default"))
	must(t, sharedClient(t).Set(ctx, "default", "k", []byte("v")))
	eventually(t, "there is a copy", func() bool {
		got[gannet.GetResult](t)(client.Get(ctx, "default", "k"))
		return client.Metrics().NearCache.Entries == 1
	})
}

func TestNearCacheWithoutTheRightToWatch(t *testing.T) {
	own, ctx := ownServer(t), testContext(t)
	redis(t, own, "ACL SETUSER reader on >pass ~a:* +get", "SET a:1 v")
	configuration := gannet.LaptopV1().WithNearCache(gannet.NearCache{EntriesMax: 10, BytesMax: 1_000})
	client := newClient(t, gannet.Token(own.address(), "reader:pass"), configuration)
	wantCode(t, client.WatchNearCache(ctx, "default"), gannet.CodePermissionDenied)
	for range 2 {
		equal(t, got[gannet.GetResult](t)(client.Get(ctx, "default", "a:1")), &gannet.GetHit{Value: []byte("v")})
	}
	equal(t, client.Metrics().NearCache.Hits, uint64(0))
	wantCode(t, sharedClient(t).WatchNearCache(ctx, "default"), gannet.CodeInvalidArgument)
	_, err := gannet.NewClient(ctx, gannet.NoToken(own.address()),
		gannet.LaptopV1().WithNearCache(gannet.NearCache{EntriesMax: 1}), time.Minute)
	wantMessage(t, wantCode(t, err, gannet.CodeInvalidArgument), "NearCache.BytesMax is 0")
}

// schemas are the generated descriptions of all files of proto/gannet/v1.
var schemas = map[string]protoreflect.FileDescriptor{
	"cache.proto": pb.File_gannet_v1_cache_proto, "graph.proto": pb.File_gannet_v1_graph_proto,
	"invalidations.proto": pb.File_gannet_v1_invalidations_proto,
	"leaderboards.proto":  pb.File_gannet_v1_leaderboards_proto, "records.proto": pb.File_gannet_v1_records_proto,
	"tokens.proto": pb.File_gannet_v1_tokens_proto, "topics.proto": pb.File_gannet_v1_topics_proto,
}

// TestGeneratedCodeIsCurrent compares the calls and fields of the schemas with those of the generated code.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	paths, err := filepath.Glob("../../proto/gannet/v1/*.proto")
	must(t, err)
	equal(t, len(paths), len(schemas))
	names := regexp.MustCompile(`(?m)(?:rpc (\w+)\(|(\w+) = (\d+);)`)
	for _, path := range paths {
		text := got[[]byte](t)(os.ReadFile(path))
		want, have := map[string]int{}, map[string]int{}
		for _, match := range names.FindAllSubmatch(text, -1) {
			want[string(match[1])+string(match[2])+" "+string(match[3])]++
		}
		generated := schemas[filepath.Base(path)]
		for at := range generated.Services().Len() {
			methods := generated.Services().Get(at).Methods()
			for of := range methods.Len() {
				have[string(methods.Get(of).Name())+" "]++
			}
		}
		countMessages(generated.Messages(), have)
		countEnums(generated.Enums(), have)
		equal(t, have, want)
	}
}

func countMessages(messages protoreflect.MessageDescriptors, names map[string]int) {
	for at := range messages.Len() {
		fields := messages.Get(at).Fields()
		for of := range fields.Len() {
			names[fmt.Sprintf("%s %d", fields.Get(of).Name(), fields.Get(of).Number())]++
		}
		countMessages(messages.Get(at).Messages(), names)
		countEnums(messages.Get(at).Enums(), names)
	}
}

func countEnums(enums protoreflect.EnumDescriptors, names map[string]int) {
	for at := range enums.Len() {
		values := enums.Get(at).Values()
		for of := range values.Len() {
			names[fmt.Sprintf("%s %d", values.Get(of).Name(), values.Get(of).Number())]++
		}
	}
}
