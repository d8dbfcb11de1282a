package gannet_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gannet "gannet.dev/client"
)

// tableAfter returns the header and the rows of the first table of README.md after a text.
func tableAfter(t *testing.T, text string) ([]string, [][]string) {
	t.Helper()
	_, rest, found := strings.Cut(string(got[[]byte](t)(os.ReadFile("README.md"))), text)
	if !found {
		t.Fatalf("README.md has no %q", text)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		if isRow := strings.HasPrefix(line, "|"); isRow {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for at := range cells {
				cells[at] = strings.TrimSpace(cells[at])
			}
			rows = append(rows, cells)
		} else if len(rows) > 0 {
			break
		}
	}
	return rows[0], rows[2:]
}

func TestTableOfCodesHasAllOfThem(t *testing.T) {
	_, rows := tableAfter(t, "Every error is a `*gannet.Error`")
	var named, all []string
	for _, row := range rows {
		for _, match := range regexp.MustCompile("`Code(\\w+)`").FindAllStringSubmatch(row[0], -1) {
			named = append(named, strings.ToLower(match[1]))
		}
	}
	for code := gannet.Code(0); !strings.HasPrefix(code.String(), "Code("); code++ {
		all = append(all, strings.ToLower(strings.ReplaceAll(code.String(), "_", "")))
	}
	slices.Sort(named)
	slices.Sort(all)
	equal(t, named, all)
}

// refusedCalls returns the calls that are refused before a request is sent, by the start of the row that describes
// them.
func refusedCalls(ctx context.Context, client *gannet.Client) map[string][]func() error {
	const lone = "\xed\xa0\x80" // a surrogate
	nameless := client.Graph("default", "")
	bins := gannet.Bins{"a": gannet.BinInteger(1)}
	return map[string][]func() error{
		"the default time to live of a client": {
			func() error {
				_, err := gannet.NewClient(ctx, gannet.NoToken(shared.address()), gannet.LaptopV1(), 0)
				return err
			},
			func() error { _, err := client.RecordPut(ctx, "default", "k", bins, gannet.TTL(0)); return err },
			func() error { _, err := client.LeaseGet(ctx, "default", "k", gannet.Recache(0)); return err },
		},
		"the name of a cache that is not printable ASCII": {
			func() error { _, err := client.Get(ctx, "caché", "k"); return err },
			func() error { _, err := client.Graph("caché", "g").Count(ctx, 1, "t"); return err },
		},
		"a text that UTF-8 does not express": {
			func() error { _, err := client.RecordGet(ctx, "default", "k", gannet.Filter(lone)); return err },
			func() error { return client.PublishText(ctx, "default", "topic", lone) },
			func() error { _, err := client.Graph("default", lone).Count(ctx, 1, "t"); return err },
		},
		"a configuration that needs more than 1,000 connections": {
			func() error {
				many := gannet.LaptopV1().WithRequestsInFlightMax(100_001)
				_, err := gannet.NewClient(ctx, gannet.NoToken(shared.address()), many, time.Hour)
				return err
			},
		},
		"the name of a graph that is empty": {
			func() error { _, err := nameless.Count(ctx, 1, "t"); return err },
			func() error { _, err := nameless.Stats(ctx); return err },
			func() error { _, err := nameless.AddEdges(ctx, "t", star(1, 2, 1)); return err },
			func() error { _, err := nameless.Query(ctx, gannet.QueryCount(1, "t")); return err },
		},
		"0 for a limit, a budget or another bound": {
			func() error {
				_, err := client.Graph("default", "readme").Mutual(ctx, 1, 2, "t", gannet.Limit(0))
				return err
			},
			func() error {
				_, err := client.Graph("default", "readme").Paths(ctx, 1, 2, "t",
					gannet.DistanceMax(0), gannet.PathsMax(0), gannet.Budget(0))
				return err
			},
			func() error {
				_, err := client.Graph("default", "readme").Suggest(ctx, 1, "t", gannet.SuggestionsMax(0))
				return err
			},
		},
	}
}

func TestRowsOfRefusedArgumentsAreWhatTheLibraryDoes(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	must(t, client.Graph("default", "readme").DeclareType(ctx, "t"))
	dropAfter(t, "readme")
	calls := refusedCalls(ctx, client)
	header, rows := tableAfter(t, "### Refused arguments")
	column := slices.Index(header, "Go")
	for _, row := range rows {
		isCompiled := row[column] == "by the compiler"
		found := isCompiled
		for start, each := range calls {
			if !strings.HasPrefix(row[0], start) {
				continue
			}
			if found {
				t.Fatalf("the row %q has calls of two rows, or none is possible", row[0])
			}
			found = true
			delete(calls, start)
			for _, call := range each {
				switch {
				case strings.HasPrefix(row[column], "`INVALID`"):
					wantCode(t, call(), gannet.CodeInvalidArgument)
				case row[column] == "the server's default":
					must(t, call())
				default:
					t.Fatalf("the cell %q is unknown", row[column])
				}
			}
		}
		if !found {
			t.Errorf("the row %q has no calls", row[0])
		}
	}
	equal(t, len(calls), 0)
}

func TestServerRefusesFurtherArguments(t *testing.T) {
	client, ctx := sharedClient(t), testContext(t)
	graph := graphOf(t, client)
	bins := gannet.Bins{"a": gannet.BinInteger(1)}
	for _, call := range []func() error{
		func() error { _, err := client.Get(ctx, "default", ""); return err },
		func() error { return client.Set(ctx, "default", "k", []byte("v"), gannet.TTL(0)) },
		func() error { _, err := client.SetPop(ctx, "default", "k", 0); return err },
		func() error {
			_, err := client.RecordPut(ctx, "default", "k", bins, gannet.IfRevision(1), gannet.IfRevisionAbove(1))
			return err
		},
		func() error { _, err := graph.Count(ctx, 0, "knows"); return err },
		func() error { _, err := graph.Count(ctx, lastNode+1, "knows"); return err },
		func() error { _, err := graph.Neighbours(ctx, 1, "knows", gannet.Limit(4097)); return err },
	} {
		wantCode(t, call(), gannet.CodeInvalidArgument)
	}
}
