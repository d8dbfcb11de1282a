package gannet_test

import (
	"context"
	"fmt"
	"log"
	"time"

	gannet "gannet.dev/client"
)

func exampleClient(configuration gannet.Configuration) *gannet.Client {
	client, err := gannet.NewClient(context.Background(), gannet.NoToken(address()), configuration, time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func ExampleClient_Subscribe() {
	ctx := context.Background()
	client := exampleClient(gannet.Laptop())
	defer client.Close()
	subscription, err := client.Subscribe(ctx, "default", "example:news")
	if err != nil {
		log.Fatal(err)
	}
	if err := client.PublishText(ctx, "default", "example:news", "hello"); err != nil {
		log.Fatal(err)
	}
	for event, err := range subscription.All() {
		if err != nil {
			log.Fatal(err)
		}
		switch event := event.(type) {
		case *gannet.TopicItem:
			fmt.Println(event.Sequence, event.ValueString())
			subscription.Close()
		case *gannet.TopicDiscontinuity:
			fmt.Println("messages before", event.NewSequence, "are missing")
		}
	}
	// Output: 1 hello
}

func ExampleClient_GetOrCompute() {
	ctx := context.Background()
	client := exampleClient(gannet.Laptop())
	defer client.Close()
	for range 2 {
		value, err := client.GetOrCompute(ctx, "default", "example:report", time.Hour,
			func(context.Context) ([]byte, error) {
				fmt.Println("computing")
				return []byte("report"), nil
			}, gannet.Recache(time.Minute))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(value))
	}
	// Output:
	// computing
	// report
	// report
}

func ExampleClient_RecordPut() {
	ctx := context.Background()
	client := exampleClient(gannet.Laptop())
	defer client.Close()
	bins := gannet.Bins{"name": gannet.BinText("Ann"), "age": gannet.BinInteger(41)}
	revision, err := client.RecordPut(ctx, "default", "example:ann", bins, gannet.WhenAbsent, gannet.TTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	older := gannet.Bins{"age": gannet.BinInteger(1)}
	if _, err = client.RecordAdd(ctx, "default", "example:ann", older, gannet.IfRevision(revision)); err != nil {
		log.Fatal(err)
	}
	_, err = client.RecordAdd(ctx, "default", "example:ann", older, gannet.IfRevision(revision))
	code, _ := gannet.CodeOf(err)
	found, err := client.RecordGet(ctx, "default", "example:ann", gannet.OnlyBins{"age"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(code, found.(*gannet.RecordHit).Bins["age"])
	// Output: ABORTED 42
}

// How far apart two people are, through whom, and whom one of them may know.
func ExampleGraph() {
	ctx := context.Background()
	client := exampleClient(gannet.Laptop())
	defer client.Close()
	people := map[uint64]string{1: "Ada", 2: "Ben", 3: "Cleo", 4: "Dan", 5: "Eve"}
	friends := []gannet.Edge{
		{Source: 1, Destination: 2}, {Source: 2, Destination: 3}, {Source: 3, Destination: 4},
		{Source: 1, Destination: 5}, {Source: 5, Destination: 3},
	}
	graph := client.Graph("default", "example:people")
	if err := graph.DeclareType(ctx, "knows", gannet.Undirected); err != nil {
		log.Fatal(err)
	}
	if _, err := graph.AddEdges(ctx, "knows", friends); err != nil {
		log.Fatal(err)
	}
	// One request for all three questions.
	answers, err := graph.Query(ctx,
		gannet.QueryDistances(1, "knows", []uint64{4}),
		gannet.QueryPaths(1, 4, "knows", gannet.PathsMax(3)),
		gannet.QuerySuggest(1, "knows"))
	if err != nil {
		log.Fatal(err)
	}
	for _, answer := range answers {
		switch answer := answer.(type) {
		case *gannet.Distances:
			fmt.Println(people[1], "and", people[4], "are", answer.Distances[0], "steps apart")
		case *gannet.Paths:
			for _, path := range answer.Paths {
				fmt.Println("through", people[path[1]], "and", people[path[2]])
			}
		case *gannet.Suggestions:
			for _, each := range answer.Suggestions {
				fmt.Println(people[1], "may know", people[each.Node]+":", each.Common, "common friends")
			}
		case *gannet.Error:
			log.Fatal(answer)
		}
	}
	// Output:
	// Ada and Dan are 3 steps apart
	// through Ben and Cleo
	// through Eve and Cleo
	// Ada may know Cleo: 2 common friends
}

func ExampleConfiguration_WithNearCache() {
	ctx := context.Background()
	near := gannet.NearCache{EntriesMax: 10_000, BytesMax: 64 << 20, Prefixes: []string{"example:config:"}}
	client := exampleClient(gannet.Laptop().WithNearCache(near))
	defer client.Close()
	if err := client.WatchNearCache(ctx, "default"); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if _, err := client.Get(ctx, "default", "example:config:none"); err != nil {
			log.Fatal(err)
		}
	}
	// Keys that do not exist are not copied.
	fmt.Println(client.Metrics().NearCache.Hits, client.Metrics().NearCache.Misses)
	// Output: 0 3
}
