package worker

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The table in the package's documentation is the one that rules.
func TestLifecycleIsDocumented(t *testing.T) {
	source, err := os.ReadFile("pools.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "refused ") && strings.HasPrefix(l, "//\t") })
	if first < 0 {
		t.Fatal("there is no table")
	}
	events := map[string]event{"refused": refused, "placed": placed, "asked": asked, "took": took, "emptied": emptied, "failed": failed, "ends": ends}
	drawn := map[event]map[State]State{}
	for _, line := range lines[first+1:] {
		if !strings.HasPrefix(line, "//\t") {
			break
		}
		from := State(strings.Fields(strings.TrimPrefix(line, "//"))[0])
		if from == "" {
			t.Fatalf("a row without a state: %q", line)
		}
		for name, e := range events {
			column := strings.Index(lines[first], name)
			if column >= len(line) || line[column] == ' ' {
				continue
			}
			if drawn[e] == nil {
				drawn[e] = map[State]State{}
			}
			to, _, _ := strings.Cut(line[column:], " ")
			drawn[e][from] = State(to)
		}
	}
	if len(drawn) != len(transitions) {
		t.Errorf("drawn: %v", drawn)
	}
	for e, want := range transitions {
		if !maps.Equal(drawn[e], want) {
			t.Errorf("event %d is drawn as %v, and is %v", e, drawn[e], want)
		}
	}
}
