package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/bradfitz/gomemcache/memcache"
	"github.com/redis/go-redis/v9"
)

// Clients of both protocols run concurrently on the same few keys of a server with two workers. Each request and reply
// is recorded with its start and end time. porcupine searches an order in which one store would have given these
// replies, and which agrees with the times. There are many short rounds, each with its own keys, because the checker's
// work grows with the length of a history.

const (
	players     = 6
	requestsMin = 12
	// Commands of a long transaction, so long that requests of others arrive while it is executed.
	longCommands = 24
)

// Far longer than the few milliseconds that the check of a round takes, because the machine may be busy.
const decideMax = 60 * time.Second

var clockStart = time.Now()

// Nanoseconds of a monotonic clock, shared by all clients.
func now() int64 {
	return int64(time.Since(clockStart))
}

type link interface {
	ask(prefix string, told request) (answer, error)
	burst(prefix string, told command, counts int) ([]reply, error)
	close()
}

// A player is one client, which sends one request after the other.
type player struct {
	link
	id       int
	speaks   protocol
	random   *rand.Rand
	prefix   string
	written  int64
	ended    int64
	joined   bool
	recorded []porcupine.Operation
	failed   error
}

type protocol bool

const (
	redisClient    protocol = false
	memcacheClient protocol = true
)

func (p *player) request(told request) answer {
	if p.failed != nil {
		return answer{replies: make([]reply, len(told.commands))}
	}
	told.player = p.id
	call := now()
	got, err := p.ask(p.prefix, told)
	end := now()
	if err != nil {
		p.failed = fmt.Errorf("client %d, %+v: %w", p.id, told, err)
		return answer{replies: make([]reply, len(told.commands))}
	}
	operation := porcupine.Operation{ClientId: p.id, Input: told, Call: call, Output: got, Return: end}
	p.recorded = append(p.recorded, operation)
	return got
}

func (p *player) one(told command) reply {
	return p.request(request{commands: []command{told}}).replies[0]
}

func (p *player) key() int {
	return p.random.Intn(keysMax)
}

// Returns a number that no other player writes in this round, with room for some increments above it.
func (p *player) fresh() int64 {
	p.written++
	return (p.written*playersMax + int64(p.id) + 1) * 1000
}

func (p *player) delta() int64 {
	return int64(1 + p.random.Intn(5))
}

type memcacheLink struct {
	*memcache.Client
	text textLink
}

func (m memcacheLink) close() {
	_ = m.Client.Close()
	_ = m.text.Close()
}

func (m memcacheLink) ask(prefix string, told request) (answer, error) {
	one := told.commands[0]
	key := fmt.Sprint(prefix, one.key)
	item := &memcache.Item{Key: key, Value: []byte(strconv.FormatInt(one.number, 10)), CasID: one.token}
	got, err := reply{number: 1}, error(nil)
	switch one.verb {
	case tail, touch, look:
		got, err = m.text.ask(prefix, one)
		return answer{replies: []reply{got}}, err
	case get:
		got.number = nothing
		if item, err = m.Get(key); err == nil {
			got.token = item.CasID
			got.number, err = strconv.ParseInt(string(item.Value), 10, 64)
		}
	case set:
		err = m.Set(item)
	case remove:
		if err = m.Delete(key); err != nil {
			got.number = 0
		}
	case incr, decr:
		change, number := m.Increment, uint64(0)
		if one.verb == decr {
			change = m.Decrement
		}
		got.number = nothing
		if number, err = change(key, uint64(one.number)); err == nil {
			got.number = int64(number)
		}
	case cas:
		got.number = casStored
		switch err = m.CompareAndSwap(item); {
		case errors.Is(err, memcache.ErrCASConflict):
			got.number, err = casExists, nil
		case errors.Is(err, memcache.ErrCacheMiss):
			got.number = casMissing
		}
	default:
		return answer{}, errors.New("not a verb of memcached")
	}
	if one.verb != set && errors.Is(err, memcache.ErrCacheMiss) {
		err = nil
	}
	return answer{replies: []reply{got}}, err
}

type redisLink struct {
	client *redis.Client
	*redis.Conn
}

func (r redisLink) close() {
	_ = r.Conn.Close()
	_ = r.client.Close()
}

func (r redisLink) ask(prefix string, told request) (answer, error) {
	ctx := context.Background()
	switch told.form {
	case transaction:
		return r.transact(ctx, prefix, told)
	case mget, mset:
		return r.together(ctx, prefix, told)
	}
	cmd := redis.NewCmd(ctx, words(prefix, told.commands[0])...)
	_ = r.Process(ctx, cmd)
	got, err := parse(told.commands[0], cmd)
	return answer{replies: []reply{got}}, err
}

func (r redisLink) transact(ctx context.Context, prefix string, told request) (answer, error) {
	var asked []*redis.Cmd
	_, err := r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, one := range told.commands {
			asked = append(asked, pipe.Do(ctx, words(prefix, one)...))
		}
		return nil
	})
	if errors.Is(err, redis.TxFailedErr) {
		return answer{refused: true}, nil
	}
	replies := make([]reply, len(asked))
	for i, cmd := range asked {
		if replies[i], err = parse(told.commands[i], cmd); err != nil {
			return answer{}, err
		}
	}
	return answer{replies: replies}, nil
}

// MGET and MSET.
func (r redisLink) together(ctx context.Context, prefix string, told request) (answer, error) {
	line := []interface{}{string(told.form)}
	for _, one := range told.commands {
		line = append(line, words(prefix, one)[1:]...)
	}
	cmd := redis.NewCmd(ctx, line...)
	_ = r.Process(ctx, cmd)
	replies := make([]reply, len(told.commands))
	if told.form == mset {
		return answer{replies: replies}, cmd.Err()
	}
	values, err := cmd.Slice()
	if err != nil {
		return answer{}, err
	}
	if len(values) != len(replies) {
		return answer{}, fmt.Errorf("%d values of %d keys", len(values), len(replies))
	}
	for i, value := range values {
		if replies[i].number, err = number(value); err != nil {
			return answer{}, err
		}
	}
	return answer{replies: replies}, nil
}

func words(prefix string, one command) []interface{} {
	key := fmt.Sprint(prefix, one.key)
	switch one.verb {
	case set:
		return []interface{}{"SET", key, one.number}
	case remove:
		return []interface{}{"DEL", key}
	case add:
		return []interface{}{"INCRBY", key, one.number}
	case rename:
		return []interface{}{"RENAME", key, fmt.Sprint(prefix, one.to)}
	case watch:
		return []interface{}{"WATCH", key}
	case join:
		return []interface{}{"APPEND", key, one.number}
	case splice:
		return []interface{}{"SETRANGE", key, 0, one.number}
	case float:
		return []interface{}{"INCRBYFLOAT", key, one.number}
	case swap:
		return []interface{}{"GETSET", key, one.number}
	case take:
		return []interface{}{"GETDEL", key}
	case touch:
		return []interface{}{"GETEX", key, "EXAT", unixEnd(one.end)}
	case ends:
		return []interface{}{"EXPIRETIME", key}
	case casGet:
		return []interface{}{"CAS.GET", key}
	case casSet:
		return []interface{}{"CAS.SET", key, one.token, one.number}
	}
	return []interface{}{"GET", key}
}

func parse(one command, cmd *redis.Cmd) (reply, error) {
	value, err := cmd.Result()
	switch {
	case one.verb == casSet && errors.Is(err, redis.Nil):
		return reply{number: casExists}, nil
	case errors.Is(err, redis.Nil):
		return reply{number: nothing}, nil
	case one.verb == rename && err != nil && strings.Contains(err.Error(), "no such key"):
		return reply{number: 0}, nil
	case err != nil:
		return reply{}, err
	case one.verb == casGet:
		return withToken(value)
	case one.verb == ends:
		seconds, err := number(value)
		if seconds == -2 {
			return reply{number: nothing}, err
		}
		return reply{end: endAt(seconds)}, err
	case one.verb != set && one.verb != rename && one.verb != watch && one.verb != casSet:
		got, err := number(value)
		return reply{number: got}, err
	case value != "OK":
		return reply{}, fmt.Errorf("%v instead of OK", value)
	}
	return reply{number: 1}, nil
}

// The reply of CAS.GET.
func withToken(value interface{}) (reply, error) {
	both, ok := value.([]interface{})
	if !ok || len(both) != 2 {
		return reply{}, fmt.Errorf("%v is no value with its token", value)
	}
	got, err := number(both[0])
	if err != nil {
		return reply{}, err
	}
	token, err := strconv.ParseUint(fmt.Sprint(both[1]), 10, 64)
	return reply{number: got, token: token}, err
}

func number(value interface{}) (int64, error) {
	switch value := value.(type) {
	case nil:
		return nothing, nil
	case int64:
		return value, nil
	case string:
		return strconv.ParseInt(value, 10, 64)
	}
	return 0, fmt.Errorf("%v is no number", value)
}

// A server with Gannet's own flags: no other server supports both protocols.
func startBoth(t *testing.T) (memcached, resp string) {
	t.Helper()
	if name := os.Getenv("SERVER"); name != "" && name != "gannet" {
		t.Skipf("SERVER is %s, which does not speak both protocols", name)
	}
	binary := os.Getenv("GANNET_BIN")
	if binary == "" {
		target := os.Getenv("CARGO_TARGET_DIR")
		if target == "" {
			target = "../../../target"
		}
		binary = filepath.Join(target, "release/gannet")
	}
	port, err := freePort()
	must(t, err)
	respPort, err := freePort()
	must(t, err)
	memcached, resp = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", respPort)
	process := exec.Command(binary, "serve", "--memcached", memcached, "--resp", resp, "--admin", "none",
		"--memory", "128MiB", "--workers", "2", "--log", "warn")
	running, err := launch(process, respPort)
	must(t, err)
	t.Cleanup(running.stop)
	return memcached, resp
}

// Half of the players use each protocol. They connect one after the other, those of one protocol first. The server
// assigns each to the worker with the fewest connections, so each worker has some of both.
func connectPlayers(t *testing.T) []*player {
	t.Helper()
	memcached, resp := startBoth(t)
	all := make([]*player, players)
	for id := range all {
		all[id] = &player{id: id, speaks: id >= players/2}
		if all[id].speaks == memcacheClient {
			client := memcache.New(memcached)
			client.Timeout, client.MaxIdleConns = 20*time.Second, 1
			text, err := dialText(memcached)
			must(t, err)
			all[id].link = memcacheLink{client, text}
		} else {
			// A request that is sent twice would be recorded only once.
			client := redis.NewClient(&redis.Options{Addr: resp, Protocol: 2 + id%2, PoolSize: 1, MaxRetries: -1,
				ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second})
			all[id].link = redisLink{client, client.Conn()}
		}
		t.Cleanup(all[id].close)
		_, err := all[id].ask("first:", request{commands: []command{{verb: get}}})
		must(t, err)
	}
	return all
}

func seed(t *testing.T) int64 {
	t.Helper()
	seed := time.Now().UnixNano() % 1_000_000_000
	if text := os.Getenv("GANNET_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseInt(text, 10, 64)
		must(t, err)
	}
	t.Logf("repeat: GANNET_SEED=%d go test -count=1 -run '^%s$' .", seed, t.Name())
	return seed
}

// Returns all players' operations in one round, sorted by their start.
func record(all []*player, seed int64, round, least int, prefix string, turn func(p *player)) ([]porcupine.Operation,
	error) {
	var done sync.WaitGroup
	begin := make(chan struct{})
	for _, p := range all {
		p.random = rand.New(rand.NewSource(seed + int64(round*playersMax+p.id)))
		p.prefix, p.recorded, p.written = fmt.Sprintf("%s:%d:", prefix, round), nil, 0
		p.ended, p.joined = 0, false
		done.Add(1)
		go func(p *player) {
			defer done.Done()
			<-begin
			for p.failed == nil && len(p.recorded) < least {
				turn(p)
			}
		}(p)
	}
	close(begin)
	done.Wait()
	var history []porcupine.Operation
	for _, p := range all {
		if p.failed != nil {
			return nil, p.failed
		}
		history = append(history, p.recorded...)
	}
	sort.Slice(history, func(a, b int) bool { return history[a].Call < history[b].Call })
	return history, nil
}

// Plays all rounds and checks each. A history that is not linearizable is printed completely.
func play(t *testing.T, rounds int, model porcupine.Model, turn func(p *player)) {
	playAtLeast(t, rounds, requestsMin, model, turn)
}

func playAtLeast(t *testing.T, rounds, least int, model porcupine.Model, turn func(p *player)) {
	seed, all := seed(t), connectPlayers(t)
	var requests, overlapping, refused int
	var slowest time.Duration
	for round := 0; round < rounds; round++ {
		history, err := record(all, seed, round, least, t.Name(), turn)
		must(t, err)
		began := time.Now()
		result := porcupine.CheckOperationsTimeout(model, history, decideMax)
		if took := time.Since(began); took > slowest {
			slowest = took
		}
		latest := int64(-1)
		for _, operation := range history {
			requests++
			if operation.Call <= latest {
				overlapping++
			}
			if operation.Return > latest {
				latest = operation.Return
			}
			if got := operation.Output.(answer); got.refused {
				refused++
			}
		}
		switch result {
		case porcupine.Illegal:
			t.Fatalf("seed %d, round %d: no order of these requests explains their answers\n%s",
				seed, round, lines(history))
		case porcupine.Unknown:
			t.Fatalf("seed %d, round %d: undecided after %v, which says nothing about the server: this history is too "+
				"long or too ambiguous for the checker\n%s", seed, round, decideMax, lines(history))
		}
	}
	t.Logf("%d requests, %d of them began while another was under way, %d transactions refused; decided in %v at most",
		requests, overlapping, refused, slowest)
	if overlapping == 0 {
		t.Fatal("no two requests overlapped: this tests nothing")
	}
}

func lines(history []porcupine.Operation) string {
	text := make([]string, len(history))
	for i, operation := range history {
		text[i] = describe(operation)
	}
	return strings.Join(text, "\n")
}

func (p *player) plain() {
	told := command{verb: get, key: p.key()}
	switch chance := p.random.Intn(10); {
	case chance < 4:
		told.verb, told.number = set, p.fresh()
	case chance < 5:
		told.verb = remove
	}
	p.one(told)
}

func (p *player) count() {
	told := command{verb: add, key: p.key(), number: p.delta()}
	if p.speaks == memcacheClient {
		told.verb = incr
		if p.random.Intn(3) == 0 {
			told.verb = decr
		}
	}
	p.one(told)
}

// Reads a value, and writes another one if the value is unchanged.
func (p *player) swap() {
	p.swapKey(p.key())
}

func (p *player) swapKey(key int) {
	if p.speaks == memcacheClient {
		if seen := p.one(command{verb: get, key: key}); seen.token != 0 {
			p.one(command{verb: cas, key: key, number: p.fresh(), token: seen.token})
		}
		return
	}
	p.one(command{verb: watch, key: key})
	p.one(command{verb: get, key: key})
	write := command{verb: set, key: key, number: p.fresh()}
	p.request(request{form: transaction, commands: []command{write}, watched: []int{key}})
}

func (p *player) writes(first, second int) []command {
	return []command{{verb: set, key: first, number: p.fresh()}, {verb: set, key: second, number: p.fresh()}}
}

func (p *player) severalKeys() {
	first := p.key()
	second := (first + 1 + p.random.Intn(keysMax-1)) % keysMax
	told := request{form: transaction}
	switch p.random.Intn(7) {
	case 0:
		for len(told.commands) < longCommands {
			told.commands = append(told.commands, p.writes(first, second)...)
		}
	case 1:
		told.commands = []command{{verb: add, key: first, number: 1}, {verb: add, key: second, number: 1}}
	case 2:
		for len(told.commands) < longCommands {
			told.commands = append(told.commands, command{verb: get, key: first}, command{verb: get, key: second})
		}
	case 3:
		told.form = mset
		told.commands = p.writes(first, second)
	case 4:
		told.form = mget
		told.commands = []command{{verb: get, key: 0}, {verb: get, key: 1}, {verb: get, key: 2}}
	case 5:
		told.form = alone
		told.commands = []command{{verb: rename, key: first, to: second}}
	default:
		p.one(command{verb: watch, key: first})
		p.one(command{verb: watch, key: second})
		told.watched = []int{first, second}
		told.commands = []command{{verb: get, key: first}, {verb: set, key: second, number: p.fresh()},
			{verb: rename, key: second, to: first}, {verb: remove, key: second}}
	}
	p.request(told)
}

func TestReadsAndWritesOfOneKeyAreInOneOrderForAll(t *testing.T) {
	play(t, 100, keyModel(), (*player).plain)
}

func TestNoCountIsLostOrSeenTwiceByEitherProtocol(t *testing.T) {
	play(t, 100, keyModel(), func(p *player) {
		if p.random.Intn(3) == 0 {
			p.plain()
		} else {
			p.count()
		}
	})
}

func TestWhatIsSwappedIsWhatWasReadByEitherProtocol(t *testing.T) {
	play(t, 100, keyModel(), func(p *player) {
		if p.random.Intn(3) == 0 {
			p.plain()
		} else {
			p.swap()
		}
	})
}

// Mixes transactions and commands over several keys with the requests of the other tests.
func TestTransactionsAreSeenWholeByEitherProtocol(t *testing.T) {
	play(t, 250, wholeModel(), func(p *player) {
		switch chance := p.random.Intn(10); {
		case p.speaks == redisClient && chance < 7:
			p.severalKeys()
		case chance < 8:
			p.plain()
		case chance < 9:
			p.count()
		default:
			p.swap()
		}
	})
}
