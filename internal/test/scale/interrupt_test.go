//go:build unix

package scale_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// gate holds POSTs.
type gate struct {
	arrived chan struct{} // receives a value per POST
	opened  chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{arrived: make(chan struct{}, 100), opened: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// await waits for n POSTs. It fails if a process ends before.
func (g *gate) await(n int, ps ...*process) {
	dead := make(chan *process)
	done := make(chan struct{})
	defer close(done)
	for _, p := range ps {
		go func() {
			select {
			case <-p.dead:
				select {
				case dead <- p:
				case <-done:
				}
			case <-done:
			}
		}()
	}
	for range n {
		select {
		case <-g.arrived:
		case p := <-dead:
			text, _ := p.out.read()
			p.t.Fatalf("terraform %s ended (%v) before its requests were sent:\n%s", p.args, p.err, text)
		}
	}
}

// hold holds POSTs before or after the deployment processes them, until the gate opens.
func (g *gate) hold(moment string) *wirefault.Fault {
	return &wirefault.Fault{Method: http.MethodPost, Hold: moment, Gate: g.opened, Held: g.arrived}
}

// stages are the moments of the four POSTs at which the apply is interrupted.
var stages = map[string]struct {
	hold    string
	opens   bool // the gate opens once Terraform has noticed the interrupt
	created int  // number of created objects
}{
	"before the POST is processed":             {hold: "before"},
	"after, and the response never arrives":    {hold: "after", created: 4},
	"before, and the response finally arrives": {hold: "before", opens: true, created: 4},
}

// An interrupted apply ends within seconds, and the state has all created objects. The next
// apply creates the rest, and nothing twice.
func TestInterruptedApply(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		tests := map[string]func(*testing.T){}
		for name, stage := range stages {
			tests[name] = func(t *testing.T) {
				d := deploy(t)
				tf := workspace(t, d, ours, v)
				tf.configure(base)
				tf.apply()
				tf.configure(count(1))

				g := newGate()
				defer g.open()
				d.setFaults(g.hold(stage.hold))
				p := tf.start("apply", "-auto-approve")
				g.await(4, p)
				p.interrupt()
				if stage.opens {
					p.awaitOutput("Gracefully shutting down")
					g.open()
				}
				out, _ := p.end(patience)
				created := d.ids(t, v)
				if len(created) != 1+stage.created {
					t.Errorf("%d objects exist, expected %d:%s", len(created), 1+stage.created, lines(created))
				}
				if kept := tf.ids(); !slices.Equal(kept, created) {
					t.Errorf("the state has%s\nand the deployment%s\nTerraform printed\n%s", lines(kept), lines(created), out)
				}
				d.setFaults()
				tf.apply()
				now := d.ids(t, v)
				if kept := tf.ids(); len(now) != 5 || !slices.Equal(kept, now) {
					t.Errorf("after the next apply the state has%s\nand the deployment%s", lines(kept), lines(now))
				}
				tf.expectEmptyPlan()
			}
		}
		sideBySide(t, tests)
	})
}
