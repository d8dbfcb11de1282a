package conformance

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of a store with a few keys, which executes one request at a time. The checker searches an order of a
// recorded history in which the model gives the recorded replies. A request must follow all that ended before it began.

const (
	keysMax    = 3
	playersMax = 8
	nothing    = int64(-1)
)

type verb string

const (
	get    verb = "get"
	set    verb = "set"
	remove verb = "delete"
	// Redis's INCRBY: a missing key counts from 0.
	add verb = "add"
	// memcached's incr: a missing key stays missing.
	incr   verb = "incr"
	decr   verb = "decr"
	cas    verb = "cas"
	rename verb = "rename"
	watch  verb = "watch"
	// Redis's CAS.SET, whose reply is the same for a different token and for a missing key.
	casSet verb = "CAS.SET"
	// Appends digits: Redis's APPEND returns the new length, memcached's append does not.
	join verb = "APPEND"
	tail verb = "append"
	// Replaces the first digit. The reply is the length.
	splice verb = "SETRANGE"
	// Adds like add, but as a floating-point number.
	float verb = "INCRBYFLOAT"
	swap  verb = "GETSET"
	take  verb = "GETDEL"
	// A read that sets the key's expiry time: gats and GETEX.
	touch verb = "touch"
	// A read of value, token and expiry time: mg with v, c and t.
	look verb = "look"
	// A read of value and token by Redis clients.
	casGet verb = "CAS.GET"
	// The key's expiry time: EXPIRETIME.
	ends verb = "EXPIRETIME"
)

// The replies of memcached to cas.
const (
	casStored  = int64(1)
	casExists  = int64(0)
	casMissing = int64(-1)
)

type command struct {
	verb    verb
	key, to int
	number  int64
	token   uint64
	end     int64
}

// A request is one command, or all commands of a transaction with the keys that it watched before.
type request struct {
	player   int
	form     form
	commands []command
	watched  []int
}

// The form in which the client sends the request; the model ignores it.
type form string

const (
	alone       form = ""
	transaction form = "MULTI"
	mset        form = "MSET"
	mget        form = "MGET"
)

type reply struct {
	number int64
	token  uint64
	end    int64
}

// An answer is a reply to each command, or the report that a watched key was changed.
type answer struct {
	refused bool
	replies []reply
}

// A cell is the model's state of a key. A token of 0 is still unknown to all players; an end of 0 means no expiry. Each
// player has one bit in two sets: the key was changed since the player watched it; the key was missing at that time.
type cell struct {
	number          int64
	token           uint64
	end             int64
	changed, absent uint8
}

type cells [keysMax]cell

func emptyCells() cells {
	var all cells
	for key := range all {
		all[key] = cell{number: nothing, changed: 0xff}
	}
	return all
}

func (c *cell) write(number int64) {
	*c = cell{number: number, changed: 0xff, absent: c.absent}
}

// Changes an existing value; its expiry time stays.
func (c *cell) change(number int64) {
	*c = cell{number: number, end: c.end, changed: 0xff, absent: c.absent}
}

// Reports whether this is a valid reply to a read of value and token.
func (c *cell) shows(got reply) bool {
	if got.token != 0 && c.token == 0 {
		c.token = got.token
	}
	return got.number == c.number && (got.token == 0 || got.token == c.token)
}

func digits(number int64) string {
	return strconv.FormatInt(number, 10)
}

// Returns the number with these digits, which must be valid.
func joined(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

// Reports whether the store in its current state gives this reply. Then changes the state as the command does.
func (all *cells) apply(player int, told command, got reply) bool {
	place, bit := &all[told.key], uint8(1)<<player
	there := place.number != nothing
	switch told.verb {
	case get, casGet:
		return place.shows(got)
	case look:
		return place.shows(got) && got.end == place.end
	case touch:
		shown := place.shows(got)
		if there && place.end != told.end {
			place.end, place.changed = told.end, 0xff
		}
		return shown
	case ends:
		return (got.number != nothing) == there && got.end == place.end
	case join, tail, splice:
		return place.edit(told, got)
	case swap:
		shown := place.shows(got)
		place.write(told.number)
		return shown
	case take:
		shown := place.shows(got)
		if there {
			place.write(nothing)
		}
		return shown
	case set:
		place.write(told.number)
		return true
	case remove:
		if there {
			place.write(nothing)
		}
		return (got.number == 1) == there
	case add, float:
		if there {
			place.change(place.number + told.number)
		} else {
			place.write(told.number)
		}
		return got.number == place.number
	case incr, decr:
		return all.count(told, got)
	case cas:
		switch {
		case !there:
			return got.number == casMissing
		case place.token != told.token:
			return got.number == casExists
		}
		place.write(told.number)
		return got.number == casStored
	case casSet:
		same := there && place.token == told.token
		if same {
			place.write(told.number)
		}
		return (got.number == casStored) == same
	case rename:
		if there {
			end := place.end
			all[told.to].write(place.number)
			all[told.to].end = end
			place.write(nothing)
		}
		return (got.number == 1) == there
	case watch:
		place.changed &^= bit
		place.absent &^= bit
		if !there {
			place.absent |= bit
		}
		return true
	}
	panic("a verb that the model does not know: " + told.verb)
}

func (all *cells) count(told command, got reply) bool {
	place := &all[told.key]
	if place.number == nothing {
		return got.number == nothing
	}
	switch {
	case told.verb == incr:
		place.change(place.number + told.number)
	case place.number < told.number:
		place.change(0)
	default:
		place.change(place.number - told.number)
	}
	return got.number == place.number
}

// Reports whether this is a valid reply to a change of some digits.
func (c *cell) edit(told command, got reply) bool {
	text := ""
	switch {
	case c.number != nothing:
		text = digits(c.number)
	case told.verb == tail:
		return got.number == 0
	}
	if told.verb == splice && text != "" {
		text = digits(told.number) + text[1:]
	} else {
		text += digits(told.number)
	}
	c.change(joined(text))
	if told.verb == tail {
		return got.number == 1
	}
	return got.number == int64(len(text))
}

// Reports whether the watched keys allow the answer. A key that was missing when it was watched may count as changed
// at any time.
func (all *cells) unwatch(told request, refused bool) bool {
	bit := uint8(1) << told.player
	var changed, absent uint8
	for _, key := range told.watched {
		changed |= all[key].changed & bit
		absent |= all[key].absent & bit
		all[key].changed |= bit
		all[key].absent &^= bit
	}
	if refused {
		return changed|absent != 0
	}
	return changed == 0
}

func step(state, input, output interface{}) (bool, interface{}) {
	all, told, got := state.(cells), input.(request), output.(answer)
	if !all.unwatch(told, got.refused) {
		return false, state
	}
	if got.refused {
		return true, all
	}
	for i, one := range told.commands {
		if !all.apply(told.player, one, got.replies[i]) {
			return false, state
		}
	}
	return true, all
}

func hashCells(state interface{}) uint64 {
	hash := fnv.New64a()
	for _, place := range state.(cells) {
		_, _ = fmt.Fprint(hash, place.number, place.token, place.end, place.changed, place.absent)
	}
	return hash.Sum64()
}

// One model for all keys together, for requests of several keys.
func wholeModel() porcupine.Model {
	return porcupine.Model{Init: func() interface{} { return emptyCells() }, Step: step, Hash: hashCells}
}

// A model for each key, for requests of one key: a history is linearizable if each key's is.
func keyModel() porcupine.Model {
	model := wholeModel()
	model.Partition = func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, keysMax)
		for _, operation := range history {
			key := operation.Input.(request).commands[0].key
			parts[key] = append(parts[key], operation)
		}
		return parts
	}
	return model
}

func describe(operation porcupine.Operation) string {
	told, got := operation.Input.(request), operation.Output.(answer)
	var text strings.Builder
	fmt.Fprintf(&text, "%9.1f to %9.1f us, client %d: %s", float64(operation.Call)/1e3, float64(operation.Return)/1e3,
		operation.ClientId, told.form)
	if len(told.watched) > 0 {
		fmt.Fprintf(&text, " (watching %v)", told.watched)
	}
	for i, one := range told.commands {
		fmt.Fprintf(&text, " %s %d", one.verb, one.key)
		switch one.verb {
		case rename:
			fmt.Fprintf(&text, " to %d", one.to)
		case cas:
			fmt.Fprintf(&text, " %d if %d", one.number, one.token)
		case set, add, incr, decr, join, tail, splice, float, swap:
			fmt.Fprintf(&text, " %d", one.number)
		case casSet:
			fmt.Fprintf(&text, " %d if %d", one.number, one.token)
		case touch:
			fmt.Fprintf(&text, " until %d", one.end)
		}
		if !got.refused {
			fmt.Fprintf(&text, " -> %d", got.replies[i].number)
		}
		if !got.refused && got.replies[i].token != 0 {
			fmt.Fprintf(&text, " token %d", got.replies[i].token)
		}
		if !got.refused && (one.verb == look || one.verb == ends) {
			fmt.Fprintf(&text, " until %d", got.replies[i].end)
		}
		text.WriteByte(';')
	}
	if got.refused {
		text.WriteString(" -> refused")
	}
	return text.String()
}

// An operation of a hand-written history: `replies` has one reply for each command, or none if the request was
// refused.
func wrote(from, to int64, told request, replies ...reply) porcupine.Operation {
	got := answer{refused: len(replies) == 0, replies: replies}
	return porcupine.Operation{ClientId: told.player, Input: told, Call: from, Output: got, Return: to}
}

func by(player int, commands ...command) request {
	return request{player: player, commands: commands}
}

func watching(told request, keys ...int) request {
	told.watched = keys
	return told
}

func numbers(all ...int64) []reply {
	replies := make([]reply, len(all))
	for i, number := range all {
		replies[i].number = number
	}
	return replies
}

// Each history is the result of a fault, or a similar one that is linearizable.
func TestTheCheckerRefusesWhatABrokenStoreWouldAnswer(t *testing.T) {
	done := reply{number: 1}
	one, two := command{verb: set, key: 0, number: 1}, command{verb: set, key: 1, number: 1}
	read, readOther := command{verb: get, key: 0}, command{verb: get, key: 1}
	count := command{verb: add, key: 0, number: 1}
	both, reads := by(0, one, two), by(1, read, readOther)
	swap := command{verb: cas, key: 0, number: 9, token: 7}
	more, behind := command{verb: incr, key: 0, number: 1}, command{verb: join, key: 0, number: 5}
	until, seen := command{verb: touch, key: 0, end: 4}, command{verb: look, key: 0}
	half := command{verb: float, key: 0, number: 2}
	move := by(0, command{verb: rename, key: 0, to: 1})
	look, change := by(1, command{verb: watch, key: 0}), watching(by(1, command{verb: set, key: 0, number: 5}), 0)
	was := wrote(0, 1, by(0, one), done)
	for _, test := range []struct {
		name    string
		want    porcupine.CheckResult
		history []porcupine.Operation
	}{
		{"a read after a write", porcupine.Ok, []porcupine.Operation{was, wrote(2, 3, by(1, read), numbers(1)...)}},
		{"a stale read", porcupine.Illegal, []porcupine.Operation{was, wrote(2, 3, by(1, read), numbers(nothing)...)}},
		{"an old value while it is written", porcupine.Ok,
			[]porcupine.Operation{wrote(0, 3, by(0, one), done), wrote(1, 2, by(1, read), numbers(nothing)...)}},
		{"an old value after a new one", porcupine.Illegal, []porcupine.Operation{wrote(0, 9, by(0, one), done),
			wrote(1, 2, by(1, read), numbers(1)...), wrote(3, 4, by(1, read), numbers(nothing)...)}},
		{"a whole transaction", porcupine.Ok,
			[]porcupine.Operation{wrote(0, 3, both, done, done), wrote(1, 2, reads, numbers(1, 1)...)}},
		{"half a transaction", porcupine.Illegal,
			[]porcupine.Operation{wrote(0, 3, both, done, done), wrote(1, 2, reads, numbers(1, nothing)...)}},
		{"half a transaction by two reads", porcupine.Illegal, []porcupine.Operation{wrote(0, 5, both, done, done),
			wrote(1, 2, by(1, readOther), numbers(1)...), wrote(3, 4, by(1, read), numbers(nothing)...)}},
		{"half a rename", porcupine.Illegal,
			[]porcupine.Operation{was, wrote(2, 5, move, done), wrote(3, 4, reads, numbers(1, 1)...)}},
		{"a whole rename", porcupine.Ok,
			[]porcupine.Operation{was, wrote(2, 5, move, done), wrote(3, 4, reads, numbers(nothing, 1)...)}},
		{"two counts", porcupine.Ok,
			[]porcupine.Operation{wrote(0, 2, by(0, count), numbers(2)...), wrote(1, 3, by(1, count), numbers(1)...)}},
		{"a lost count", porcupine.Illegal,
			[]porcupine.Operation{wrote(0, 2, by(0, count), numbers(1)...), wrote(1, 3, by(1, count), numbers(1)...)}},
		{"one token stores once", porcupine.Ok, []porcupine.Operation{was,
			wrote(2, 3, by(1, read), reply{number: 1, token: 7}),
			wrote(4, 6, by(0, swap), numbers(casStored)...), wrote(5, 7, by(1, swap), numbers(casExists)...)}},
		{"one token stores twice", porcupine.Illegal, []porcupine.Operation{was,
			wrote(2, 3, by(1, read), reply{number: 1, token: 7}),
			wrote(4, 6, by(0, swap), numbers(casStored)...), wrote(5, 7, by(1, swap), numbers(casStored)...)}},
		{"a token changes with no write", porcupine.Illegal,
			[]porcupine.Operation{was, wrote(2, 3, by(1, read), reply{number: 1, token: 7}),
				wrote(4, 5, by(1, read), reply{number: 1, token: 8})}},
		{"a token stores over a count", porcupine.Illegal, []porcupine.Operation{was,
			wrote(2, 6, by(1, read), reply{number: 1, token: 7}), wrote(3, 4, by(0, more), numbers(2)...),
			wrote(5, 7, by(0, more), numbers(3)...), wrote(8, 9, by(1, swap), numbers(casStored)...)}},
		{"a token does not store over a count", porcupine.Ok, []porcupine.Operation{was,
			wrote(2, 6, by(1, read), reply{number: 1, token: 7}), wrote(3, 4, by(0, more), numbers(2)...),
			wrote(8, 9, by(1, swap), numbers(casExists)...)}},
		{"two lengths", porcupine.Ok, []porcupine.Operation{was, wrote(2, 4, by(0, behind), numbers(2)...),
			wrote(3, 5, by(1, behind), numbers(3)...)}},
		{"another client's length", porcupine.Illegal, []porcupine.Operation{was,
			wrote(2, 4, by(0, behind), numbers(3)...), wrote(3, 5, by(1, behind), numbers(3)...)}},
		{"a value whose end was set", porcupine.Ok, []porcupine.Operation{was, wrote(2, 5, by(0, until), numbers(1)...),
			wrote(3, 4, by(1, more), numbers(2)...), wrote(6, 7, by(1, seen), reply{number: 2, end: 4})}},
		{"a value whose end was not set", porcupine.Illegal, []porcupine.Operation{was,
			wrote(2, 6, by(0, until), numbers(9)...), wrote(3, 5, by(1, command{verb: set, key: 0, number: 9}), done),
			wrote(7, 8, by(1, seen), reply{number: 9})}},
		{"a lost count of floating point", porcupine.Illegal, []porcupine.Operation{was,
			wrote(2, 6, by(0, half), numbers(4)...), wrote(3, 5, by(1, more), numbers(2)...),
			wrote(7, 8, by(1, seen), reply{number: 3})}},
		{"what is watched stays", porcupine.Ok,
			[]porcupine.Operation{was, wrote(2, 3, look, done), wrote(4, 5, change, done)}},
		{"what is watched is changed unseen", porcupine.Illegal, []porcupine.Operation{was, wrote(2, 3, look, done),
			wrote(4, 5, by(0, one), done), wrote(6, 7, change, done)}},
		{"what is watched is changed to the same", porcupine.Ok, []porcupine.Operation{was, wrote(2, 3, look, done),
			wrote(4, 5, by(0, one), done), wrote(6, 7, change)}},
		{"refused with no change", porcupine.Illegal,
			[]porcupine.Operation{was, wrote(2, 3, look, done), wrote(4, 5, change)}},
	} {
		if got := porcupine.CheckOperationsTimeout(wholeModel(), test.history, 20*time.Second); got != test.want {
			t.Errorf("%s: the checker says %s, not %s", test.name, got, test.want)
		}
	}
}
