package pod

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// The table in the package's documentation agrees with the code.
func TestLifecycleIsDocumented(t *testing.T) {
	lines := strings.Split(string(must.ReadFile(t, "pod.go")), "\n")
	first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "//\t") && strings.Contains(l, " start ") })
	must.Require(t, first >= 0, "there is no table")
	events := map[string]event{
		"start": start, "stop": stop, "restart": restart, "reset": reset, "replace": replace, "waits": startDelayed, "placed": computeAssigned, "up": containerStarted, "exited": containerExited, "failed": containerFailed, "restored": restartQueued,
	}
	documented := map[event]map[store.PodStatus]store.PodStatus{}
	for _, line := range lines[first+1:] {
		if !strings.HasPrefix(line, "//\t") {
			break
		}
		from := store.PodStatus(strings.Fields(strings.TrimPrefix(line, "//"))[0])
		for name, e := range events {
			column := strings.Index(lines[first], " "+name) + 1
			if column >= len(line) || line[column] == ' ' {
				continue
			}
			if documented[e] == nil {
				documented[e] = map[store.PodStatus]store.PodStatus{}
			}
			to, _, _ := strings.Cut(line[column:], " ")
			documented[e][from] = store.PodStatus(to)
		}
	}
	must.Equal(t, len(documented), len(transitions), "the number of documented events", documented)
	for e, want := range transitions {
		must.Equal(t, documented[e], want, "the documented transitions of event", e)
	}
}

// Each status allows the actions in the v2 document. A lock forbids stop.
func TestActions(t *testing.T) {
	for status, want := range map[store.PodStatus][]Action{
		store.PodProvisioning: {Stop, Terminate}, store.PodStarting: {Stop, Terminate}, store.PodRunning: {Stop, Restart, Terminate},
		store.PodExited: {Start, Terminate}, store.PodError: {Start, Terminate},
	} {
		p := store.Pod{PodState: store.PodState{Status: status}}
		must.Equal(t, Actions(p), want, "the actions that are allowed in", status)
		p.Locked = true
		got := Actions(p)
		must.Hold(t, !slices.Contains(got, Stop), status, "allows", got, "although it is locked")
	}
}
