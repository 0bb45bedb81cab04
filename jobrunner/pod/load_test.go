package pod

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// slowEngine is a container engine that answers when answer is closed. It has a container of a
// deleted pod and the network of a deleted cluster.
type slowEngine struct {
	run.PodPrograms
	t       *testing.T
	answer  chan struct{}
	removed chan string
}

func (e *slowEngine) Orphans(context.Context, string) []run.Orphan {
	select {
	case <-e.answer:
	case <-time.After(10 * time.Second):
		e.t.Error("the start waits for the container engine")
	}
	return []run.Orphan{{Pod: "deleted", Remove: func() { e.removed <- "container" }}}
}

func (e *slowEngine) OrphanNetworks(context.Context, string) []string {
	return []string{networkName("deleted")}
}

func (e *slowEngine) RemoveNetwork(_ context.Context, name string) error {
	e.removed <- name
	return nil
}

// A start doesn't wait for a slow container engine. It removes leftovers when the engine answers.
func TestLeftoversAreRemovedInTheBackground(t *testing.T) {
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{}))(t)
	defer db.Close()
	objects := must.Do(store.Open(t.Context(), db, new(clock.Clock)))(t)
	engine := &slowEngine{t: t, answer: make(chan struct{}), removed: make(chan string, 3)}
	pods := New(Config{Store: objects, Programs: engine, Devices: gpu.NewAllocator(gpu.None()), Folder: t.TempDir(),
		Machine: "m", Persistent: true, Clock: new(clock.Clock), Logger: slog.New(slog.DiscardHandler)})
	must.Succeed(t, pods.Load(t.Context()))
	defer pods.Close()
	close(engine.answer)
	for _, want := range []string{"container", networkName("deleted")} {
		select {
		case got := <-engine.removed:
			must.Equal(t, got, want, "removed")
		case <-time.After(time.Minute):
			t.Fatalf("%q isn't removed", want)
		}
	}
}
