package node

import (
	"maps"
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

func TestPlan(t *testing.T) {
	own, other := engine.Leader{Lead: engine.Lead{Process: "this"}, Own: true}, engine.Leader{Lead: engine.Lead{Process: "other"}}
	for name, c := range map[string]struct {
		leaders string // of endpoints a, b, …: o this node, x another, . nobody
		nodes   int
		before  string // endpoints without a leader in the last round
		claim   string
		unled   string
		surplus int
	}{
		"nothing":                 {"", 1, "", "", "", 0},
		"alone":                   {"...", 1, "", "abc", "abc", -3},
		"its share":               {"....", 2, "", "ab", "abcd", -2},
		"a share is rounded up":   {"...", 2, "", "ab", "abc", -2},
		"beside others' leads":    {"x.x.", 2, "", "bd", "bd", -2},
		"share reached":           {"oox.", 2, "", "", "d", 0},
		"nobody came":             {"oox.", 2, "d", "d", "d", 0},
		"some that nobody came":   {"oox..", 3, "e", "e", "de", 0},
		"above its share":         {"ooox", 2, "", "", "", 1},
		"far above, others start": {"oooo", 4, "", "", "", 3},
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
		claim, unled := "", ""
		for _, id := range p.claim {
			claim += id
		}
		for _, id := range slices.Sorted(maps.Keys(p.unled)) {
			unled += id
		}
		if claim != c.claim || unled != c.unled || p.surplus != c.surplus {
			t.Errorf("%s: claims %q of %q, surplus %d; expected %q of %q, %d", name, claim, unled, p.surplus, c.claim, c.unled, c.surplus)
		}
	}
}
