package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// One server for all tests of go-redis, by the protocol of Redis.
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
