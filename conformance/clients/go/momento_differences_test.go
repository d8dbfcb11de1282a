package conformance

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// The differences that docs/momento.md lists, as the published schemas show them.
func TestMomentoDifferencesUnimplementedCalls(t *testing.T) {
	c := connectMomento(t)
	served := map[string]bool{"CreateCache": true, "DeleteCache": true, "ListCaches": true, "FlushCache": true}
	count := 0
	for name := range c.methods {
		method, found := strings.CutPrefix(name, "control_client.ScsControl/")
		if name == "auth.Auth/Login" || found && !served[method] {
			c.fails(codes.Unimplemented, "", "", name, ``)
			count++
		}
	}
	if count != 10 {
		t.Errorf("%d calls are refused", count)
	}
}

func TestMomentoDifferencesRankOfAnAbsentElement(t *testing.T) {
	c := connectMomento(t)
	must(t, c.plain.Do(context.Background(), "ZADD", "z", 1, "a").Err())
	for _, name := range []string{"z", "none"} {
		request := `set_name: "` + name + `" value: "x"`
		c.is("cache_client.Scs/SortedSetGetRank", request, `element_rank { result: Miss }`)
	}
}

func TestMomentoDifferencesRangesBeyondTheEnd(t *testing.T) {
	c := connectMomento(t)
	ctx := context.Background()
	must(t, c.plain.RPush(ctx, "l", "a").Err())
	must(t, c.plain.Do(ctx, "ZADD", "z", 1, "a").Err())
	c.is("cache_client.Scs/ListFetch", `list_name: "l" inclusive_start: 5`, `missing {}`)
	c.is("cache_client.Scs/SortedSetFetch", `set_name: "z" by_index { inclusive_start_index: 5 }`,
		`found { values {} }`)
}
