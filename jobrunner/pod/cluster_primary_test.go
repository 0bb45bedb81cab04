package pod

import (
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// fakeProcess exits when its channel is closed.
type fakeProcess struct {
	run.Process
	done chan struct{}
}

func (p fakeProcess) Done() <-chan struct{} { return p.done }

func member(rank int64) store.Pod {
	return store.Pod{Cluster: &store.ClusterMember{ID: "c", Rank: &rank, Size: 2}, GPU: &store.PodGPU{Count: 1}}
}

// A running member restarts only when the primary's address differs from the one it got.
func TestPrimaryMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		r := &runner{cluster: c}
		p := member(1)
		p.HiddenEnv = map[string]string{"PRIMARY_ADDR": "10.0.0.1"}
		for _, end := range []string{"moved", "ended"} {
			process := fakeProcess{done: make(chan struct{})}
			moved := make(chan bool, 1)
			go func() { moved <- r.primaryMoved(t.Context(), p, process) }()
			for _, address := range []string{"10.0.0.1", "", "10.0.0.1"} {
				c.announce(address)
				synctest.Wait()
				if len(moved) > 0 {
					t.Fatalf("%q: the member doesn't keep running", address)
				}
			}
			if end == "moved" {
				c.announce("10.0.0.2")
			} else {
				close(process.done)
			}
			must.Equal(t, <-moved, end == "moved", end)
			c.announce("")
		}
	})
}

// A cluster member with its own address gets the variables with that address only from ownAddress;
// together with the others they are complete.
func TestOwnAddress(t *testing.T) {
	for rank, want := range []map[string]string{
		{"NODE_ADDR": "", "PRIMARY_ADDR": "", "MASTER_ADDR": "", "HOST_NODE_ADDR": ":29400"},
		{"NODE_ADDR": ""},
	} {
		must.Equal(t, ownAddress(member(int64(rank))), want, "rank", rank)
		for name := range ownAddress(member(int64(rank))) {
			if _, there := rankEnvironment(member(int64(rank)), "", "", primaryPort)[name]; !there {
				t.Errorf("rank %d: no member has %s", rank, name)
			}
		}
	}
}
