package gannet_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	gannet "gannet.dev/client"
)

// address returns the address of a running server.
func address() string { return shared.address() }

func Example() {
	ctx := context.Background()
	client, err := gannet.NewClient(ctx, gannet.NoToken(address()), gannet.Laptop(), time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Set(ctx, "default", "greeting", []byte("hello"), gannet.TTL(time.Minute)); err != nil {
		log.Fatal(err)
	}
	found, err := client.Get(ctx, "default", "greeting")
	if err != nil {
		log.Fatal(err)
	}
	switch found := found.(type) {
	case *gannet.GetHit:
		fmt.Println(found.ValueString())
	case *gannet.GetMiss:
		fmt.Println("not there")
	}
	// Output: hello
}

func ExampleError() {
	ctx := context.Background()
	client, err := gannet.NewClient(ctx, gannet.NoToken(address()), gannet.Laptop(), time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.Get(ctx, "sessions", "k")
	var failure *gannet.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Code, failure.Retryable)
		fmt.Println(failure.Remedy)
	}
	// Output:
	// NOT_FOUND_CACHE false
	// create the cache with CreateCache, or correct its name
}

func ExampleConfiguration() {
	configuration := gannet.InRegionLowLatency().
		WithDeadline(200 * time.Millisecond).
		WithRequestsInFlightMax(150).
		WithRetryStrategy(gannet.ExponentialBackoff{Max: 50 * time.Millisecond}).
		WithHedging(5 * time.Millisecond)
	fmt.Println(configuration.ConnectionsMax(), gannet.InRegionLowLatency().ConnectionsMax())
	// Output: 2 1
}

// logging prints each call.
type logging struct{}

func (logging) Before(ctx context.Context, start gannet.CallStart) context.Context { return ctx }

func (logging) After(ctx context.Context, end gannet.CallEnd) {
	fmt.Println(end.Method, end.Cache, end.Err == nil)
}

func ExampleMiddleware() {
	ctx := context.Background()
	configuration := gannet.Laptop().WithMiddleware(logging{})
	client, err := gannet.NewClient(ctx, gannet.NoToken(address()), configuration, time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := client.KeysExist(ctx, "default", "a", "b"); err != nil {
		log.Fatal(err)
	}
	// Output: KeysExist default true
}

func ExampleClient_GetBatch() {
	ctx := context.Background()
	client, err := gannet.NewClient(ctx, gannet.NoToken(address()), gannet.Laptop(), time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	items := []gannet.Item{{Key: "example:a", Value: []byte("1")}, {Key: "example:b", Value: []byte("2")}}
	if err := client.SetBatch(ctx, "default", items); err != nil {
		log.Fatal(err)
	}
	results, err := client.GetBatch(ctx, "default", "example:b", "example:none", "example:a")
	if err != nil {
		log.Fatal(err)
	}
	for _, each := range results {
		if hit, isHit := each.(*gannet.GetHit); isHit {
			fmt.Println(hit.ValueString())
		} else {
			fmt.Println("miss")
		}
	}
	// Output:
	// 2
	// miss
	// 1
}

func ExampleClient_ListFetch() {
	ctx := context.Background()
	client, err := gannet.NewClient(ctx, gannet.NoToken(address()), gannet.Laptop(), time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	values := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	if _, err := client.ListConcatenateBack(ctx, "default", "example:queue", values, gannet.MaxLength(3)); err != nil {
		log.Fatal(err)
	}
	result, err := client.ListFetch(ctx, "default", "example:queue", gannet.From(-2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.(*gannet.ListHit).ElementStrings())
	// Output: [b c]
}
