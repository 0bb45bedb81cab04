package node

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func TestPlan(t *testing.T) {
	own, other := engine.Leader{Leadership: engine.Leadership{Process: "this"}, Own: true}, engine.Leader{Leadership: engine.Leadership{Process: "other"}}
	for name, c := range map[string]struct {
		leaders    string // a letter per endpoint a, b, …: o is led by this node, x by another node, . by no node
		nodes      int
		before     string // endpoints without a leader in the last round
		claim      string
		leaderless string // endpoints without a leader, before the node claims any
		surplus    int
	}{
		"nothing":                  {"", 1, "", "", "", 0},
		"alone":                    {"...", 1, "", "abc", "abc", -3},
		"its share":                {"....", 2, "", "ab", "abcd", -2},
		"a share is rounded up":    {"...", 2, "", "ab", "abc", -2},
		"beside others' endpoints": {"x.x.", 2, "", "bd", "bd", -2},
		"share reached":            {"oox.", 2, "", "", "d", 0},
		"still unclaimed":          {"oox.", 2, "d", "d", "d", 0},
		"one still unclaimed":      {"oox..", 3, "e", "e", "de", 0},
		"above its share":          {"ooox", 2, "", "", "", 1},
		"far above, others start":  {"oooo", 4, "", "", "", 3},
	} {
		leaders, endpoints, before := map[string]engine.Leader{}, []store.Endpoint{}, map[string]bool{}
		for i, l := range c.leaders {
			e := store.Endpoint{}
			e.ID = string(rune('a' + i))
			endpoints = append(endpoints, e)
			switch l {
			case 'o':
				leaders[e.ID] = own
			case 'x':
				leaders[e.ID] = other
			}
		}
		for _, id := range c.before {
			before[string(id)] = true
		}
		p := newPlan(endpoints, leaders, c.nodes, before)
		claim, leaderless := strings.Join(p.claim, ""), strings.Join(slices.Sorted(maps.Keys(p.leaderless)), "")
		must.Hold(t, claim == c.claim && leaderless == c.leaderless && p.surplus == c.surplus,
			name, "claims", claim, "of the endpoints", leaderless, "surplus", p.surplus, "expected", c.claim, "of", c.leaderless, c.surplus)
	}
}

// A node learns from a forwarded request whether its client used TLS, and the client's address.
func TestForwardKeepsTheClient(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+" "+r.Header.Get("X-Forwarded-For")+" "+r.Header.Get("X-Forwarded-Proto"))
	}))
	defer other.Close()
	n := New(Config{FolderID: "this", Logger: slog.New(slog.DiscardHandler)})
	for _, proto := range []string{"https", ""} {
		r := httptest.NewRequest("GET", "http://cloud.example/v2/e/x", nil)
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		if proto != "" {
			r.Header.Set("X-Forwarded-Proto", proto)
		}
		w := httptest.NewRecorder()
		n.newForwarder(new(http.Transport)).send(w, r, other.URL)
		must.Equal(t, w.Body.String(), "cloud.example 198.51.100.1, 192.0.2.1 "+proto)
	}
}
