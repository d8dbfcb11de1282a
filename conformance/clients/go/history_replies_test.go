package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
)

// Histories of commands that report their own effect, and of pipelined increments beside stores by token.

const (
	// Increments that a client sends before it reads their replies.
	burstCounts = 16
	// Requests of a player in a round of bursts; each increment counts as one.
	burstRequestsMin = 3 * burstCounts
	endStep          = 1000
)

// Expiry times are multiples of a step from this second, so far apart that a remaining time identifies one of them.
var endStart = time.Now().Unix() + 100*endStep

func unixEnd(end int64) int64 {
	return endStart + end*endStep
}

// Returns the expiry time of an item that expires at this second, or 0.
func endAt(seconds int64) int64 {
	if seconds < 0 {
		return 0
	}
	return (seconds - endStart + endStep/2) / endStep
}

// A connection to a memcached port, with commands that the client library lacks.
type textLink struct {
	net.Conn
	*bufio.Reader
}

func dialText(address string) (textLink, error) {
	conn, err := net.DialTimeout("tcp", address, 20*time.Second)
	if err != nil {
		return textLink{}, err
	}
	return textLink{conn, bufio.NewReader(conn)}, nil
}

func (t textLink) send(text string) error {
	if err := t.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	_, err := io.WriteString(t.Conn, text)
	return err
}

func (t textLink) line() ([]string, error) {
	line, err := t.ReadString('\n')
	return strings.Fields(line), err
}

func (t textLink) number() (int64, error) {
	words, err := t.line()
	if err != nil {
		return 0, err
	}
	if len(words) != 1 {
		return 0, fmt.Errorf("%q is no number", words)
	}
	return strconv.ParseInt(words[0], 10, 64)
}

func (t textLink) ask(prefix string, one command) (reply, error) {
	key := fmt.Sprint(prefix, one.key)
	switch one.verb {
	case tail:
		text := digits(one.number)
		if err := t.send(fmt.Sprintf("append %s 0 0 %d\r\n%s\r\n", key, len(text), text)); err != nil {
			return reply{}, err
		}
		words, err := t.line()
		if err == nil && (len(words) != 1 || words[0] != "STORED" && words[0] != "NOT_STORED") {
			err = fmt.Errorf("append is answered by %q", words)
		}
		if err != nil || words[0] != "STORED" {
			return reply{}, err
		}
		return reply{number: 1}, nil
	case touch:
		return t.gats(key, one)
	case look:
		return t.look(key)
	}
	return reply{}, errors.New("not a verb of memcached")
}

func (t textLink) gats(key string, one command) (reply, error) {
	if err := t.send(fmt.Sprintf("gats %d %s\r\n", unixEnd(one.end), key)); err != nil {
		return reply{}, err
	}
	words, err := t.line()
	if err != nil || len(words) == 1 && words[0] == "END" {
		return reply{number: nothing}, err
	}
	if len(words) != 5 {
		return reply{}, fmt.Errorf("gats is answered by %q", words)
	}
	got := reply{}
	if got.token, err = strconv.ParseUint(words[4], 10, 64); err != nil {
		return got, err
	}
	if got.number, err = t.number(); err != nil {
		return got, err
	}
	words, err = t.line()
	if err == nil && (len(words) != 1 || words[0] != "END") {
		err = fmt.Errorf("gats ends by %q", words)
	}
	return got, err
}

func (t textLink) look(key string) (reply, error) {
	if err := t.send(fmt.Sprintf("mg %s v c t\r\n", key)); err != nil {
		return reply{}, err
	}
	words, err := t.line()
	if err != nil || len(words) == 1 && words[0] == "EN" {
		return reply{number: nothing}, err
	}
	if len(words) != 4 || words[0] != "VA" {
		return reply{}, fmt.Errorf("mg is answered by %q", words)
	}
	got := reply{}
	if got.token, err = strconv.ParseUint(words[2][1:], 10, 64); err != nil {
		return got, err
	}
	left, err := strconv.ParseInt(words[3][1:], 10, 64)
	if err != nil {
		return got, err
	}
	if left >= 0 {
		got.end = endAt(time.Now().Unix() + left)
	}
	got.number, err = t.number()
	return got, err
}

// Pipelines increments of one key, and returns when all replies have arrived.
func (m memcacheLink) burst(prefix string, one command, counts int) ([]reply, error) {
	request := fmt.Sprintf("incr %s%d %d\r\n", prefix, one.key, one.number)
	if err := m.text.send(strings.Repeat(request, counts)); err != nil {
		return nil, err
	}
	replies := make([]reply, counts)
	for i := range replies {
		words, err := m.text.line()
		if err != nil {
			return nil, err
		}
		replies[i].number = nothing
		if len(words) == 1 && words[0] != "NOT_FOUND" {
			if replies[i].number, err = strconv.ParseInt(words[0], 10, 64); err != nil {
				return nil, err
			}
		}
	}
	return replies, nil
}

func (r redisLink) burst(prefix string, one command, counts int) ([]reply, error) {
	asked := make([]*redis.Cmd, counts)
	_, err := r.Pipelined(context.Background(), func(pipe redis.Pipeliner) error {
		for i := range asked {
			asked[i] = pipe.Do(context.Background(), words(prefix, one)...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	replies := make([]reply, counts)
	for i, cmd := range asked {
		if replies[i], err = parse(one, cmd); err != nil {
			return nil, err
		}
	}
	return replies, nil
}

// Records pipelined increments: each is a separate request, from the send of all until the last reply.
func (p *player) burst(key int) {
	if p.failed != nil {
		return
	}
	one := command{verb: add, key: key, number: 1}
	if p.speaks == memcacheClient {
		one.verb = incr
	}
	call := now()
	replies, err := p.link.burst(p.prefix, one, burstCounts)
	end := now()
	if err != nil {
		p.failed = fmt.Errorf("client %d, %d x %+v: %w", p.id, burstCounts, one, err)
		return
	}
	for _, got := range replies {
		p.recorded = append(p.recorded, porcupine.Operation{
			ClientId: p.id,
			Input:    request{player: p.id, commands: []command{one}},
			Call:     call,
			Output:   answer{replies: []reply{got}},
			Return:   end,
		})
	}
}

// Reads a value with its token and stores another with that token: by gets and cas, gats, mg, or CAS.GET.
func (p *player) byToken(key int) {
	store := command{verb: cas, key: key}
	told := command{verb: get, key: key}
	if p.speaks == redisClient {
		store.verb, told.verb = casSet, casGet
	} else {
		switch p.random.Intn(3) {
		case 0:
			told.verb, told.end = touch, p.end()
		case 1:
			told.verb = look
		}
	}
	if seen := p.one(told); seen.token != 0 {
		store.number, store.token = p.fresh(), seen.token
		p.one(store)
	}
}

// Returns an expiry time that no other player uses in this round.
func (p *player) end() int64 {
	p.ended++
	return p.ended*playersMax + int64(p.id) + 1
}

// Commands whose replies report their own effect, including those that read and change at once.
func (p *player) reporting() {
	told := command{number: p.fresh(), end: p.end()}
	chance := p.random.Intn(10)
	switch {
	case chance < 1:
		told.verb = set
	case chance < 2 && !p.joined:
		// The number becomes longer, and must remain exact as a floating-point number.
		p.joined = true
		told.verb, told.number = join, p.delta()
		if p.speaks == memcacheClient {
			told.verb = tail
		}
	case chance < 4:
		told.verb = touch
	case chance < 5 && p.speaks == memcacheClient:
		told.verb = look
	case p.speaks == memcacheClient:
		// Never to 0: digits appended to a 0 do not form a valid number.
		told.verb, told.number = incr, p.delta()
	default:
		told.verb = []verb{ends, float, float, splice, swap, take, add}[p.random.Intn(7)]
		if told.verb == float || told.verb == splice || told.verb == add {
			told.number = p.delta()
		}
	}
	p.one(told)
}

func TestNoCountAtAHighRateIsLostToATokenOrAWatchedTransaction(t *testing.T) {
	playAtLeast(t, 400, burstRequestsMin, keyModel(), func(p *player) {
		switch chance := p.random.Intn(10); {
		case len(p.recorded) == 0:
			// Increments of a missing key are indistinguishable, so the checker would try all their orders.
			p.one(command{verb: set, number: p.fresh()})
		case p.id%(players/2) == 0 && chance < 8:
			p.burst(0)
		case chance < 7:
			p.byToken(0)
		case p.speaks == redisClient:
			p.swapKey(0)
		default:
			p.byToken(0)
		}
	})
}

func TestEveryReplyReportsWhatItsOwnCommandDid(t *testing.T) {
	play(t, 500, keyModel(), func(p *player) {
		if p.random.Intn(6) == 0 {
			p.swapKey(0)
		} else {
			p.reporting()
		}
	})
}
