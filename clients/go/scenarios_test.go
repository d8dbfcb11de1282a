package gannet_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"google.golang.org/grpc/metadata"

	gannet "gannet.dev/client"
)

// stepMax bounds the time of a step.
const stepMax = 30 * time.Second

// table is a table of TOML.
type table = map[string]any

// outcome is the result of a call in the words of the scenarios.
type outcome struct {
	fields    table
	remaining time.Duration
	message   string
	ended     time.Time
}

// started is a call that runs beside the steps.
type started struct {
	begun  time.Time
	cancel context.CancelFunc
	ended  chan outcome
}

// player executes the steps of one scenario.
type player struct {
	t       *testing.T
	server  *server
	network *proxy // between client and server; nil if no step changes the network
	client  *gannet.Client
	other   *gannet.Client
	faults  *faults
	started map[string]started
	held    []net.Conn
	topics  map[string]*subscription
	leases  map[*gannet.Client]uint64
}

// TestScenarios plays the scenarios that all client libraries share; conformance/clients/scenarios describes them.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("../../conformance/clients/scenarios/*.toml")
	must(t, err)
	if len(paths) == 0 {
		t.Fatal("no scenarios")
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".toml"), func(t *testing.T) {
			t.Parallel()
			scenario := struct {
				Name   string
				Client table
				Server table
				Steps  []table
			}{}
			_, err := toml.DecodeFile(path, &scenario)
			must(t, err)
			if scenario.Name == "" || len(scenario.Steps) == 0 {
				t.Fatal("the scenario has no name, or no steps")
			}
			var arguments []string
			for key, value := range scenario.Server {
				if key != "connections_max" {
					t.Fatalf("unknown setting of the server: %s", key)
				}
				arguments = append(arguments, fmt.Sprint(value))
			}
			server, asked := ownServerWith(t, arguments), &faults{}
			configuration := configured(t, scenario.Client).WithMiddleware(asked)
			address, network := server.address(), (*proxy)(nil)
			if slices.ContainsFunc(scenario.Steps, func(step table) bool { return step["network"] != nil }) {
				network = newProxy(t, address, nil, nil)
				address = network.address()
			}
			playing := player{
				t: t, server: server, faults: asked, started: map[string]started{}, topics: map[string]*subscription{},
				leases: map[*gannet.Client]uint64{},
				client: newClient(t, gannet.NoToken(address), configuration), network: network,
			}
			defer playing.hold(0)
			if scenario.Client["near_cache"] != nil {
				must(t, playing.client.WatchNearCache(testContext(t), "default"))
			}
			for at, step := range scenario.Steps {
				if err := playing.play(step); err != nil {
					t.Fatalf("step %d of '%s' %v: %v", at+1, scenario.Name, step, err)
				}
			}
			if len(playing.started) > 0 {
				t.Fatal("a started call is not finished")
			}
		})
	}
}

func configured(t *testing.T, changes table) gannet.Configuration {
	t.Helper()
	name, isNamed := changes["preset"].(string)
	if !isNamed {
		name = "Laptop.v1"
	}
	configuration := got[gannet.Configuration](t)(gannet.Preset(name)).WithMetrics(true)
	for key, value := range changes {
		number, _ := value.(int64)
		switch key {
		case "preset":
		case "deadline_ms":
			configuration = configuration.WithDeadline(milliseconds(value))
		case "requests_in_flight_max":
			configuration = configuration.WithRequestsInFlightMax(int(number))
		case "requests_queued_max":
			configuration = configuration.WithRequestsQueuedMax(int(number))
		case "near_cache":
			bounds := value.(table)
			configuration = configuration.WithNearCache(gannet.NearCache{
				EntriesMax: int(bounds["entries_max"].(int64)), BytesMax: int(bounds["bytes_max"].(int64)),
			})
		case "retry_count":
			configuration = configuration.WithRetryStrategy(gannet.FixedCount(number))
		default:
			t.Fatalf("unknown change of the preset: %s", key)
		}
	}
	return configuration
}

func milliseconds(value any) time.Duration { return time.Duration(value.(int64)) * time.Millisecond }

// stepKeys are the keys that a step may have. A step with another one is not played.
var stepKeys = []string{
	"arguments", "at_least_ms", "at_most_ms", "cache", "call", "cancel", "client", "deadline_ms", "expect", "faults",
	"finish", "hold_connections", "metrics", "network", "receive", "server", "start", "subscribe", "wait_ms", "within_ms",
}

func (p *player) play(step table) error {
	for key := range step {
		if !slices.Contains(stepKeys, key) {
			return fmt.Errorf("unknown key of a step: %s", key)
		}
	}
	if action, has := step["server"]; has {
		return p.control(action.(string))
	}
	if action, has := step["network"]; has {
		return p.network.network(action.(string))
	}
	if duration, has := step["wait_ms"]; has {
		time.Sleep(milliseconds(duration))
		return nil
	}
	if want, has := step["metrics"]; has {
		return within(2*time.Second, func() error { return p.compareMetrics(want.(table)) })
	}
	if pairs, has := step["faults"]; has {
		p.faults.ask(pairs.(table))
		return nil
	}
	if number, has := step["hold_connections"]; has {
		return p.hold(number.(int64))
	}
	if name, has := step["subscribe"]; has {
		p.topics[name.(string)] = p.subscribe(step)
		return nil
	}
	if name, has := step["receive"]; has {
		return p.topics[name.(string)].receive(step)
	}
	if name, has := step["cancel"]; has && p.topics[name.(string)] != nil {
		p.topics[name.(string)].cancel()
		return nil
	}
	if name, has := step["cancel"]; has {
		p.started[name.(string)].cancel()
		return nil
	}
	if name, has := step["finish"]; has {
		each := p.started[name.(string)]
		delete(p.started, name.(string))
		select {
		case result := <-each.ended:
			return compare(step, result, each.begun)
		case <-time.After(stepMax):
			return fmt.Errorf("the call did not end")
		}
	}
	if name, has := step["start"]; has {
		return p.start(name.(string), step)
	}
	limit := time.Duration(0)
	if value, has := step["within_ms"]; has {
		limit = milliseconds(value)
	}
	return within(limit, func() error {
		ctx, cancel := contextOf(step)
		defer cancel()
		begun := time.Now()
		return compare(step, p.call(ctx, step), begun)
	})
}

// within repeats an attempt until it succeeds, for at most this time.
func within(limit time.Duration, attempt func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if err := attempt(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

func (p *player) control(action string) error {
	switch action {
	case "pause":
		p.server.pause(p.t)
	case "resume":
		p.server.resume()
	case "kill":
		p.server.kill()
	case "stop":
		p.server.stop()
	case "start":
		return p.server.start()
	default:
		return fmt.Errorf("unknown action of the server: %s", action)
	}
	return nil
}

func (p *player) compareMetrics(want table) error {
	metrics := p.client.Metrics()
	have := table{
		"resumes":   int64(metrics.Resumes),
		"near_hits": int64(metrics.NearCache.Hits), "near_misses": int64(metrics.NearCache.Misses),
		"near_invalidations": int64(metrics.NearCache.Invalidations),
		"in_flight":          int64(metrics.InFlight), "queued": int64(metrics.Queued), "retries": int64(metrics.Retries),
	}
	for name, value := range want {
		if have[name] != value {
			return fmt.Errorf("%s is %v", name, have[name])
		}
	}
	return nil
}

// subscription is a subscription of a scenario, or the reason why it did not begin.
type subscription struct {
	received *gannet.Subscription
	err      error
	cancel   context.CancelFunc
}

func (p *player) subscribe(step table) *subscription {
	cache, named := step["cache"].(string)
	if !named {
		cache = "default"
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	received, err := p.client.Subscribe(ctx, cache, step["arguments"].(table)["topic"].(string))
	return &subscription{received, err, cancel}
}

// receive compares the next event with a step.
func (s *subscription) receive(step table) error {
	begun := time.Now()
	// Heartbeats do not extend the time.
	defer time.AfterFunc(timeout, s.cancel).Stop()
	result := outcome{fields: table{}}
	for result.fields["type"] == nil {
		event, err := gannet.TopicEvent(nil), s.err
		if err == nil {
			event, err = s.received.Next()
		}
		if err != nil {
			code, _ := gannet.CodeOf(err)
			result.fields, result.message = table{"type": "error", "code": code.String()}, err.Error()
		}
		switch event := event.(type) {
		case *gannet.TopicItem:
			number := int64(event.Sequence)
			result.fields = table{"type": "item", "value": event.ValueString(), "sequence": number}
		case *gannet.TopicDiscontinuity:
			result.fields = table{
				"type": "discontinuity", "last_sequence": int64(event.LastSequence), "new_sequence": int64(event.NewSequence),
			}
		}
	}
	result.ended = time.Now()
	return compare(step, result, begun)
}

// hold opens or closes connections that send nothing.
func (p *player) hold(number int64) error {
	for ; int64(len(p.held)) > number; p.held = p.held[1:] {
		p.held[0].Close()
	}
	for int64(len(p.held)) < number {
		open, err := net.Dial("tcp", p.server.address())
		if err != nil {
			return err
		}
		p.held = append(p.held, open)
	}
	return nil
}

// faults is the middleware that asks the server for faults.
type faults struct{ pairs atomic.Pointer[[]string] }

var tests atomic.Int64

func (f *faults) ask(pairs table) {
	all := []string{"request-id", fmt.Sprint(tests.Add(1))}
	for name, value := range pairs {
		all = append(all, name, fmt.Sprint(value))
	}
	if len(pairs) == 0 {
		all = nil
	}
	f.pairs.Store(&all)
}

// Before adds the metadata. It implements gannet.Middleware.
func (f *faults) Before(ctx context.Context, _ gannet.CallStart) context.Context {
	if pairs := f.pairs.Load(); pairs != nil && len(*pairs) > 0 {
		return metadata.AppendToOutgoingContext(ctx, *pairs...)
	}
	return ctx
}

// After implements gannet.Middleware.
func (*faults) After(context.Context, gannet.CallEnd) {}

func (p *player) pending() int {
	metrics := p.client.Metrics()
	return metrics.InFlight + metrics.Queued
}

func (p *player) start(name string, step table) error {
	before := p.pending()
	ctx, cancel := contextOf(step)
	each := started{time.Now(), cancel, make(chan outcome, 1)}
	p.started[name] = each
	go func() { each.ended <- p.call(ctx, step) }()
	return within(5*time.Second, func() error {
		if now := p.pending(); now != before+1 {
			return fmt.Errorf("%d calls are pending, want %d", now, before+1)
		}
		return nil
	})
}

func contextOf(step table) (context.Context, context.CancelFunc) {
	if deadline, has := step["deadline_ms"]; has {
		return context.WithTimeout(context.Background(), milliseconds(deadline))
	}
	return context.WithCancel(context.Background())
}

// call executes the call of a step.
func (p *player) call(ctx context.Context, step table) outcome {
	fields, remaining, err := p.execute(ctx, step)
	result := outcome{fields: fields, remaining: remaining, ended: time.Now()}
	if err != nil {
		code, _ := gannet.CodeOf(err)
		result.fields, result.message = table{"type": "error", "code": code.String()}, err.Error()
	}
	return result
}

func (p *player) execute(ctx context.Context, step table) (table, time.Duration, error) {
	arguments, _ := step["arguments"].(table)
	text := func(name string) string { value, _ := arguments[name].(string); return value }
	data := func(name string) []byte { return []byte(text(name)) }
	cache, key := "default", text("key")
	if named, has := step["cache"]; has {
		cache = named.(string)
	}
	var options []gannet.SetOption
	if ttl, has := arguments["ttl_ms"]; has {
		options = append(options, gannet.TTL(milliseconds(ttl)))
	}
	ttl := func() time.Duration { return milliseconds(arguments["ttl_ms"]) }
	var result any
	fields := table{}
	client, err := p.clientOf(step)
	if err != nil {
		return nil, 0, err
	}
	switch step["call"] {
	case "get":
		result, err = client.Get(ctx, cache, key)
	case "set":
		err = client.Set(ctx, cache, key, data("value"), options...)
	case "get_batch":
		var results []gannet.GetResult
		results, err = client.GetBatch(ctx, cache, texts(arguments["keys"])...)
		each := make([]any, len(results))
		for at := range results {
			each[at] = fieldsOf(results[at], table{})
		}
		fields["results"] = each
	case "set_batch":
		var items []gannet.Item
		for key, value := range arguments["items"].(table) {
			items = append(items, gannet.Item{Key: key, Value: []byte(value.(string))})
		}
		err = client.SetBatch(ctx, cache, items, options...)
	case "delete":
		err = client.Delete(ctx, cache, key)
	case "increment":
		fields["number"], err = client.Increment(ctx, cache, key, arguments["amount"].(int64))
	case "set_if_absent":
		result, err = client.SetIfAbsent(ctx, cache, key, data("value"))
	case "get_ttl":
		result, err = client.GetTTL(ctx, cache, key)
	case "update_ttl":
		result, err = client.UpdateTTL(ctx, cache, key, ttl())
	case "increase_ttl":
		result, err = client.IncreaseTTL(ctx, cache, key, ttl())
	case "decrease_ttl":
		result, err = client.DecreaseTTL(ctx, cache, key, ttl())
	case "list_push_back":
		_, err = client.ListPushBack(ctx, cache, key, data("value"))
	case "list_fetch":
		result, err = client.ListFetch(ctx, cache, key, gannet.All())
	case "dictionary_set_fields":
		values := map[string][]byte{}
		for field, value := range arguments["fields"].(table) {
			values[field] = []byte(value.(string))
		}
		err = client.DictionarySetFields(ctx, cache, key, values)
	case "dictionary_fetch":
		result, err = client.DictionaryFetch(ctx, cache, key)
	case "set_add_elements":
		err = client.SetAddElements(ctx, cache, key, texts(arguments["elements"]))
	case "set_contains":
		result, err = client.SetContains(ctx, cache, key, texts(arguments["elements"])...)
	case "sorted_set_put_elements":
		scores := map[string]float64{}
		for element, score := range arguments["elements"].(table) {
			scores[element] = score.(float64)
		}
		err = client.SortedSetPutElements(ctx, cache, key, scores)
	case "sorted_set_fetch_by_index":
		result, err = client.SortedSetFetchByIndex(ctx, cache, key, gannet.All(), gannet.Ascending)
	case "create_cache":
		err = client.CreateCache(ctx, text("name"))
	case "delete_cache":
		err = client.DeleteCache(ctx, text("name"))
	case "topic_publish":
		err = client.PublishText(ctx, cache, text("topic"), text("value"))
	case "flush_cache":
		err = client.FlushCache(ctx, text("name"))
	case "lease_get":
		result, err = client.LeaseGet(ctx, cache, key)
		if won, is := result.(*gannet.LeaseWon); is {
			p.leases[client] = won.Token
		}
	case "lease_set":
		result, err = client.LeaseSet(ctx, cache, key, p.leases[client], data("value"))
	case "lease_stale":
		result, err = client.LeaseStale(ctx, cache, key, 0)
	case "record_put", "record_add":
		fields["revision"], err = changeRecord(ctx, client, step["call"], cache, key, arguments)
	case "record_get":
		result, err = client.RecordGet(ctx, cache, key, gannet.Filter(text("filter")))
	case "record_delete":
		var options []gannet.RecordDeleteOption
		if revision, has := arguments["if_revision"].(int64); has {
			options = append(options, gannet.IfRevision(revision))
		}
		result, err = client.RecordDelete(ctx, cache, key, options...)
	case "record_scan":
		fields["keys"], err = scannedKeys(ctx, client, cache, text("set"))
	default:
		if name, is := strings.CutPrefix(step["call"].(string), "leaderboard_"); is {
			err = callLeaderboard(ctx, client, name, cache, arguments, fields)
		} else {
			err = fmt.Errorf("unknown call: %v", step["call"])
		}
	}
	if err != nil {
		return nil, 0, err
	}
	remaining := time.Duration(math.MaxInt64)
	if hit, isTTL := result.(*gannet.TTLHit); isTTL {
		remaining = hit.Remaining
	}
	return fieldsOf(result, fields), remaining, nil
}

func changeRecord(
	ctx context.Context, client *gannet.Client, call any, cache, key string, arguments table,
) (any, error) {
	var options []gannet.RecordChangeOption
	if set, has := arguments["set"].(string); has {
		options = append(options, gannet.InSet(set))
	}
	if revision, has := arguments["if_revision"].(int64); has {
		options = append(options, gannet.IfRevision(revision))
	}
	conditions := map[any]gannet.When{
		"create": gannet.WhenAbsent, "update": gannet.WhenPresent, "replace": gannet.Replacing,
	}
	if only, has := arguments["only"]; has {
		options = append(options, conditions[only])
	}
	bins := gannet.Bins{}
	for name, value := range arguments["bins"].(table) {
		bins[name] = binOf(value)
	}
	change := client.RecordPut
	if call == "record_add" {
		change = client.RecordAdd
	}
	revision, err := change(ctx, cache, key, bins, options...)
	return int64(revision), err
}

func binOf(value any) gannet.BinValue {
	switch value := value.(type) {
	case string:
		return gannet.BinText(value)
	case int64:
		return gannet.BinInteger(value)
	case float64:
		return gannet.BinNumber(value)
	case bool:
		return gannet.BinBoolean(value)
	case []any:
		list := gannet.BinList{}
		for _, each := range value {
			list = append(list, binOf(each))
		}
		return list
	}
	return nil
}

func plainOf(value gannet.BinValue) any {
	switch value := value.(type) {
	case gannet.BinText:
		return string(value)
	case gannet.BinInteger:
		return int64(value)
	case gannet.BinNumber:
		return float64(value)
	case gannet.BinBoolean:
		return bool(value)
	case gannet.BinList:
		list := []any{}
		for _, each := range value {
			list = append(list, plainOf(each))
		}
		return list
	}
	return value
}

func scannedKeys(ctx context.Context, client *gannet.Client, cache, set string) (any, error) {
	page, err := client.RecordScan(ctx, cache, set)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	for _, each := range page.Records {
		keys = append(keys, each.Key)
	}
	slices.Sort(keys)
	return anys(keys), nil
}

func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for at := range list {
		all[at] = list[at]
	}
	return all
}

func callLeaderboard(
	ctx context.Context, client *gannet.Client, call, cache string, arguments table, fields table,
) error {
	name := arguments["leaderboard"].(string)
	number := func(name string) uint32 { value, _ := arguments[name].(int64); return uint32(value) }
	score := func(name string) float64 { value, _ := arguments[name].(float64); return value }
	order := gannet.Ascending
	if arguments["order"] == "descending" {
		order = gannet.Descending
	}
	var ids []uint32
	list, _ := arguments["ids"].([]any)
	for _, each := range list {
		ids = append(ids, uint32(each.(int64)))
	}
	var ranked []gannet.Ranked
	var err error
	switch call {
	case "upsert":
		scores := map[uint32]float64{}
		for _, each := range arguments["elements"].([]any) {
			scores[uint32(each.([]any)[0].(int64))] = each.([]any)[1].(float64)
		}
		return client.LeaderboardUpsert(ctx, cache, name, scores)
	case "remove":
		return client.LeaderboardRemove(ctx, cache, name, ids...)
	case "delete":
		return client.LeaderboardDelete(ctx, cache, name)
	case "length":
		length, err := client.LeaderboardLength(ctx, cache, name)
		fields["length"] = int64(length)
		return err
	case "get_by_rank":
		ranked, err = client.LeaderboardGetByRank(ctx, cache, name, number("first"), number("end"), order)
	case "get_by_score":
		scores := gannet.ScoreRange{}.WithLeast(score("least")).WithGreatestExclusive(score("end"))
		ranked, err = client.LeaderboardGetByScore(ctx, cache, name, scores, order)
	case "get_rank":
		ranked, err = client.LeaderboardGetRank(ctx, cache, name, ids, order)
	case "get_competition_rank":
		ranked, err = client.LeaderboardGetCompetitionRank(ctx, cache, name, ids, order)
	default:
		err = fmt.Errorf("unknown call of leaderboards: %s", call)
	}
	all := []any{}
	for _, each := range ranked {
		all = append(all, []any{int64(each.ID), int64(each.Rank), each.Score})
	}
	fields["ranked"] = all
	return err
}

// clientOf returns the client that executes a step.
func (p *player) clientOf(step table) (*gannet.Client, error) {
	switch step["client"] {
	case nil:
		return p.client, nil
	case "other":
		if p.other == nil {
			p.other = newClient(p.t, gannet.NoToken(p.server.address()), gannet.LaptopV1())
		}
		return p.other, nil
	}
	return nil, fmt.Errorf("unknown client: %v", step["client"])
}

func texts(list any) []string {
	var all []string
	for _, each := range list.([]any) {
		all = append(all, each.(string))
	}
	return all
}

// fieldsOf adds the type and the fields of a result in the words of the scenarios; nil is a success.
func fieldsOf(result any, fields table) table {
	fields["type"] = "hit"
	switch result := result.(type) {
	case nil:
		fields["type"] = "success"
	case *gannet.Miss:
		fields["type"] = "miss"
	case *gannet.Stored:
		fields["type"] = "stored"
	case *gannet.NotStored:
		fields["type"] = "not_stored"
	case *gannet.LeaseHit:
		fields["value"] = result.ValueString()
	case *gannet.LeaseWon:
		fields["type"] = "won"
		if result.HasStale {
			fields["value"] = string(result.Stale)
		}
	case *gannet.LeaseWait:
		fields["type"] = "wait"
		if result.HasStale {
			fields["value"] = string(result.Stale)
		}
	case *gannet.RecordHit:
		bins := table{}
		for name, value := range result.Bins {
			bins[name] = plainOf(value)
		}
		fields["bins"], fields["revision"] = bins, int64(result.Revision)
	case *gannet.GetHit:
		fields["value"] = result.ValueString()
	case *gannet.ListHit:
		elements := []any{}
		for _, each := range result.ElementStrings() {
			elements = append(elements, each)
		}
		fields["elements"] = elements
	case *gannet.DictionaryHit:
		values := table{}
		for field, value := range result.FieldStrings() {
			values[field] = value
		}
		fields["fields"] = values
	case *gannet.ContainsHit:
		contained := []any{}
		for _, each := range result.Contained {
			contained = append(contained, each)
		}
		fields["contained"] = contained
	case *gannet.SortedSetHit:
		scored := []any{}
		for _, each := range result.Elements {
			scored = append(scored, []any{each.Element, each.Score})
		}
		fields["scored"] = scored
	}
	return fields
}

// compare returns an error unless a result is as the step expects.
func compare(step table, result outcome, begun time.Time) error {
	for name, want := range step["expect"].(table) {
		switch name {
		case "remaining_ms_max":
			if result.remaining <= 0 || result.remaining > milliseconds(want) {
				return fmt.Errorf("the time to live is %v", result.remaining)
			}
			continue
		case "remaining_ms_min":
			if result.remaining < milliseconds(want) {
				return fmt.Errorf("the time to live is %v", result.remaining)
			}
			continue
		}
		have := result.fields[name]
		if list, isTables := want.([]table); isTables {
			all := make([]any, len(list))
			for at := range list {
				all[at] = list[at]
			}
			want = all
		}
		if !reflect.DeepEqual(have, want) {
			return fmt.Errorf("%s is %#v, want %#v (%s)", name, have, want, result.message)
		}
	}
	if result.fields["type"] == "error" && !strings.Contains(result.message, "; ") {
		return fmt.Errorf("the message names no remedy: %s", result.message)
	}
	took := result.ended.Sub(begun)
	if least, has := step["at_least_ms"]; has && took < milliseconds(least) {
		return fmt.Errorf("the call took %v", took)
	}
	if greatest, has := step["at_most_ms"]; has && took > milliseconds(greatest) {
		return fmt.Errorf("the call took %v", took)
	}
	return nil
}
