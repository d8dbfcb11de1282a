package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// One server for all tests of go-redis, through the Redis protocol.
var redisServer struct {
	once sync.Once
	*server
	address string
	err     error
}

func redisAddress(t *testing.T) string {
	t.Helper()
	redisServer.once.Do(func() {
		var port, respPort int
		if port, redisServer.err = freePort(); redisServer.err != nil {
			return
		}
		if respPort, redisServer.err = freePort(); redisServer.err != nil {
			return
		}
		redisServer.server, redisServer.err = startResp(port, respPort)
		redisServer.address = fmt.Sprintf("127.0.0.1:%d", respPort)
	})
	if redisServer.err != nil {
		t.Fatal(redisServer.err)
	}
	return redisServer.address
}

func eachVersion(t *testing.T, test func(t *testing.T, ctx context.Context, client *redis.Client, prefix string)) {
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: redisAddress(t), Protocol: version, ClientName: "tester"})
			defer client.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			test(t, ctx, client, fmt.Sprintf("go:%s:", t.Name()))
		})
	}
}

func same[T comparable](t *testing.T, what string, got T, err error, want T) {
	t.Helper()
	if err != nil || got != want {
		t.Fatalf("%s: %v, %v instead of %v", what, got, err, want)
	}
}

func TestRedisStringsAndTimes(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		set, err := client.Set(ctx, prefix+"k", "v", time.Minute).Result()
		same(t, "set", set, err, "OK")
		got, err := client.Get(ctx, prefix+"k").Result()
		same(t, "get", got, err, "v")
		if _, err := client.Get(ctx, prefix+"none").Result(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		added, err := client.SetNX(ctx, prefix+"k", "w", 0).Result()
		same(t, "setnx", added, err, false)
		if left, err := client.PTTL(ctx, prefix+"k").Result(); err != nil || left <= 0 || left > time.Minute {
			t.Fatal(left, err)
		}
		sum, err := client.IncrBy(ctx, prefix+"n", 40).Result()
		same(t, "incrby", sum, err, 40)
		share, err := client.IncrByFloat(ctx, prefix+"f", 0.25).Result()
		same(t, "incrbyfloat", share, err, 0.25)
		name, err := client.ClientGetName(ctx).Result()
		same(t, "name", name, err, "tester")
		if commands, err := client.Command(ctx).Result(); err != nil || commands["get"] == nil {
			t.Fatal(err)
		}
		if slow, err := client.SlowLogGet(ctx, 10).Result(); err != nil {
			t.Fatal(slow, err)
		}
		if info, err := client.ClientInfo(ctx).Result(); err != nil || info.Name != "tester" {
			t.Fatal(info, err)
		}
	})
}

func TestRedisPipelinesAndWalks(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for number := 0; number < 1000; number++ {
				pipe.Set(ctx, fmt.Sprintf("%swalk:%d", prefix, number), number, 0)
			}
			return nil
		})
		same(t, "pipeline", len(commands), err, 1000)
		met := map[string]bool{}
		walk := client.Scan(ctx, 0, prefix+"walk:*", 100).Iterator()
		for walk.Next(ctx) {
			met[walk.Val()] = true
		}
		same(t, "walk", len(met), walk.Err(), 1000)
		deleted, err := client.Del(ctx, prefix+"walk:1", prefix+"walk:2", prefix+"none").Result()
		same(t, "del", deleted, err, 2)
	})
}

func TestRedisPoolOfManyGoroutines(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		var all sync.WaitGroup
		failures := make(chan error, 32)
		for worker := 0; worker < 32; worker++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for number := 0; number < 50; number++ {
					if err := client.Incr(ctx, prefix+"all").Err(); err != nil {
						failures <- err
						return
					}
				}
			}()
		}
		all.Wait()
		close(failures)
		for err := range failures {
			t.Fatal(err)
		}
		sum, err := client.Get(ctx, prefix+"all").Int()
		same(t, "sum", sum, err, 1600)
	})
}

func TestRedisSubscribers(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		subscriber := client.Subscribe(ctx, prefix+"news")
		defer subscriber.Close()
		if err := subscriber.PSubscribe(ctx, prefix+"s*"); err != nil {
			t.Fatal(err)
		}
		for confirmed := 0; confirmed < 2; confirmed++ {
			if _, err := subscriber.Receive(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for number := 0; number < 100; number++ {
			told, err := client.Publish(ctx, prefix+"news", number).Result()
			same(t, "publish", told, err, 1)
		}
		if err := client.Publish(ctx, prefix+"sport", "end").Err(); err != nil {
			t.Fatal(err)
		}
		for number := 0; number < 100; number++ {
			message, err := subscriber.ReceiveMessage(ctx)
			if err != nil || message.Payload != fmt.Sprint(number) {
				t.Fatal(number, message, err)
			}
		}
		message, err := subscriber.ReceiveMessage(ctx)
		if err != nil || message.Pattern != prefix+"s*" || message.Payload != "end" {
			t.Fatal(message, err)
		}
		if err := subscriber.Ping(ctx, "text"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRedisHashes(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		key := prefix + "user"
		added, err := client.HSet(ctx, key, "name", "Ada", "visits", 1).Result()
		same(t, "hset", added, err, 2)
		visits, err := client.HIncrBy(ctx, key, "visits", 4).Result()
		same(t, "hincrby", visits, err, 5)
		all, err := client.HGetAll(ctx, key).Result()
		same(t, "hgetall", fmt.Sprint(all), err, "map[name:Ada visits:5]")
		var user struct {
			Name   string `redis:"name"`
			Visits int    `redis:"visits"`
		}
		err = client.HGetAll(ctx, key).Scan(&user)
		same(t, "hgetall into a struct", fmt.Sprint(user), err, "{Ada 5}")
		some, err := client.HMGet(ctx, key, "name", "none").Result()
		same(t, "hmget", fmt.Sprint(some), err, "[Ada <nil>]")
		if _, err := client.HGet(ctx, key, "none").Result(); !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		if err := client.Get(ctx, key).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			t.Fatal(err)
		}
		deleted, err := client.HDel(ctx, key, "name", "none").Result()
		same(t, "hdel", deleted, err, 1)
	})
}

func TestRedisWalkOverFields(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		key, fields := prefix+"wide", map[string]string{}
		for number := 0; number < 300; number++ {
			fields[fmt.Sprintf("f%d", number)] = fmt.Sprintf("v%d", number)
		}
		added, err := client.HSet(ctx, key, fields).Result()
		same(t, "hset", added, err, 300)
		met := map[string]string{}
		walk := client.HScan(ctx, key, 0, "", 20).Iterator()
		for walk.Next(ctx) {
			field := walk.Val()
			if !walk.Next(ctx) {
				t.Fatal("a field without a value", field, walk.Err())
			}
			met[field] = walk.Val()
		}
		same(t, "walk", fmt.Sprint(met), walk.Err(), fmt.Sprint(fields))
	})
}

func TestRedisTransactions(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		key, word := prefix+"t", prefix+"word"
		var sum *redis.IntCmd
		commands, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key, 1, 0)
			sum = pipe.Incr(ctx, key)
			return nil
		})
		same(t, "transaction", len(commands), err, 2)
		same(t, "sum", sum.Val(), sum.Err(), 2)
		var read *redis.StringCmd
		_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, word, "x", 0)
			pipe.Incr(ctx, word)
			read = pipe.Get(ctx, word)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "not an integer") {
			t.Fatal(err)
		}
		same(t, "behind the failure", read.Val(), read.Err(), "x")
		_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key, "lost", 0)
			pipe.Do(ctx, "SET", key)
			return nil
		})
		if err == nil || !strings.HasPrefix(err.Error(), "EXECABORT") {
			t.Fatal(err)
		}
		err = client.Watch(ctx, func(tx *redis.Tx) error {
			if err := client.Incr(ctx, key).Err(); err != nil {
				return err
			}
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, key, "lost", 0).Err() })
			return err
		}, key)
		if !errors.Is(err, redis.TxFailedErr) {
			t.Fatal(err)
		}
		left, err := client.Get(ctx, key).Int()
		same(t, "what is left", left, err, 3)
	})
}

// Increments a number by reading and writing it, and retries until no other client has changed it in between.
func addWatching(ctx context.Context, client *redis.Client, key string) error {
	for {
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			number, err := tx.Get(ctx, key).Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				return pipe.Set(ctx, key, number+1, 0).Err()
			})
			return err
		}, key)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

// Runs `work` in this many goroutines, and fails with the first failure of any.
func together(t *testing.T, workers int, work func() error) {
	t.Helper()
	failures := make(chan error, workers)
	for worker := 0; worker < workers; worker++ {
		go func() { failures <- work() }()
	}
	var first error
	for worker := 0; worker < workers; worker++ {
		if err := <-failures; err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		t.Fatal(first)
	}
}

func TestRedisSumOfGoroutinesThatWatch(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		together(t, 6, func() error {
			for number := 0; number < 20; number++ {
				if err := addWatching(ctx, client, prefix+"sum"); err != nil {
					return err
				}
			}
			return nil
		})
		sum, err := client.Get(ctx, prefix+"sum").Int()
		same(t, "sum", sum, err, 120)
	})
}

func TestRedisLimitOfARate(t *testing.T) {
	eachVersion(t, func(t *testing.T, ctx context.Context, client *redis.Client, prefix string) {
		key := prefix + "rate"
		allowed := func() (bool, error) {
			var count *redis.IntCmd
			_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				count = pipe.Incr(ctx, key)
				return pipe.ExpireNX(ctx, key, time.Minute).Err()
			})
			return count.Val() <= 10, err
		}
		var passed atomic.Int64
		together(t, 8, func() error {
			for number := 0; number < 20; number++ {
				pass, err := allowed()
				if err != nil {
					return err
				}
				if pass {
					passed.Add(1)
				}
			}
			return nil
		})
		same(t, "let through", passed.Load(), nil, 10)
		if left, err := client.TTL(ctx, key).Result(); err != nil || left <= 0 || left > time.Minute {
			t.Fatal(left, err)
		}
		if err := client.PExpire(ctx, key, time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
		for pass := false; !pass; {
			var err error
			if pass, err = allowed(); err != nil {
				t.Fatal(err)
			}
		}
		count, err := client.Get(ctx, key).Int()
		same(t, "the next window", count, err, 1)
	})
}

func TestRedisServerStartedAgain(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	respPort, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	first, err := startResp(port, respPort)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", respPort)})
	defer client.Close()
	set, err := client.Set(ctx, "k", "v", 0).Result()
	same(t, "set", set, err, "OK")
	first.stop()
	if err := client.Get(ctx, "k").Err(); err == nil {
		t.Fatal("a server that is gone answers")
	}
	second, err := startResp(port, respPort)
	if err != nil {
		t.Fatal(err)
	}
	defer second.stop()
	if err := client.Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}
