package worker

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The table in the package's documentation matches the code.
func TestLifecycleIsDocumented(t *testing.T) {
	source := must.ReadFile(t, "pools.go")
	lines := strings.Split(string(source), "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "refused ") && strings.HasPrefix(l, "//\t") })
	if first < 0 {
		t.Fatal("the documentation has no table")
	}
	events := map[string]event{
		"refused": devicesRefused, "granted": devicesGranted, "requested": jobRequested, "taken": jobTaken,
		"gone": lastJobGone, "failed": workerFailed, "shutdown": shutdown,
	}
	documented := map[event]map[State]State{}
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
			if documented[e] == nil {
				documented[e] = map[State]State{}
			}
			to, _, _ := strings.Cut(line[column:], " ")
			documented[e][from] = State(to)
		}
	}
	must.Equal(t, len(documented), len(transitions), "documented", documented)
	for e, want := range transitions {
		must.Equal(t, documented[e], want, "event", e, "is documented as")
	}
}
