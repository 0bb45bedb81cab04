//go:build unix

package scale_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// gate holds POSTs.
type gate struct {
	arrived chan struct{} // receives a value per POST
	opened  chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{arrived: make(chan struct{}, 100), opened: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// await waits for n POSTs. The test fails if a process ends before that.
func (g *gate) await(n int, ps ...*process) {
	ended := make(chan *process, len(ps))
	for _, p := range ps {
		go func() {
			<-p.ended
			ended <- p
		}()
	}
	for range n {
		select {
		case <-g.arrived:
		case p := <-ended:
			p.t.Fatalf("terraform %s ended (%v) before its requests were sent:\n%s", p.args, p.err, p.out.String())
		}
	}
}

// hold holds POSTs before or after the deployment processes them, until the gate opens.
func (g *gate) hold(moment wirefault.Moment) *wirefault.Fault {
	return &wirefault.Fault{Method: http.MethodPost, Hold: moment, Gate: g.opened, Held: g.arrived}
}

// stages are the moments of the four POSTs at which the apply is interrupted.
var stages = map[string]struct {
	signal  syscall.Signal
	hold    wirefault.Moment
	opens   bool // the gate opens once Terraform has noticed the interrupt
	created int  // number of created objects
}{
	"before the POST is processed":             {signal: syscall.SIGINT, hold: "before"},
	"after, and the response never arrives":    {signal: syscall.SIGTERM, hold: "after", created: 4},
	"before, and the response finally arrives": {signal: syscall.SIGINT, hold: "before", opens: true, created: 4},
}

// After an interrupted apply, the state has all created objects. The next apply creates only the rest.
func TestInterruptedApply(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		tests := map[string]func(*testing.T){}
		for name, stage := range stages {
			tests[name] = func(t *testing.T) {
				d := deploy(t)
				tf := newWorkspace(t, d, ourProvider, v)
				tf.configure(baseTemplate)
				tf.apply()
				tf.configure(configOf(1))

				g := newGate()
				defer g.open()
				d.setFaults(g.hold(stage.hold))
				p := tf.start("apply", "-auto-approve")
				g.await(4, p)
				must.Succeed(t, syscall.Kill(-p.Process.Pid, stage.signal)) // like Ctrl-C or the program timeout, it signals Terraform and its providers
				if stage.opens {
					p.out.Await(t, "Gracefully shutting down", 1)
					g.open()
				}
				out, _ := p.waitForExit()
				created, stateIDs := d.ids(t, v), tf.ids()
				must.Equal(t, len(created), 1+stage.created, "the number of objects", lines(created))
				must.Hold(t, slices.Equal(stateIDs, created),
					"the state has", lines(stateIDs), "and the deployment", lines(created), "Terraform printed", out)
				d.setFaults()
				tf.apply()
				have, stateIDs := d.ids(t, v), tf.ids()
				must.Hold(t, len(have) == 5 && slices.Equal(stateIDs, have),
					"after the next apply the state has", lines(stateIDs), "and the deployment", lines(have))
				tf.expectEmptyPlan()
			}
		}
		runConcurrently(t, tests)
	})
}

// equalObjects configures three equal volumes and endpoints and, if unique is set, objects with unique names.
func equalObjects(template string, unique bool) string {
	config := fmt.Sprintf(`
resource "gpucloud_network_volume" "v" {
  count       = 3
  name        = "twin"
  size        = 10
  data_center = "EU-RO-1"
}
resource "gpucloud_endpoint" "e" {
  count       = 3
  name        = "twin"
  template_id = %q
  gpu         = { type_ids = ["NVIDIA L4"] }
}
`, template)
	if unique {
		config += `
resource "gpucloud_template" "t" {
  name  = "only"
  image = "registry.example/worker:1"
}
resource "gpucloud_registry_auth" "r" {
  name     = "only"
  username = "robot"
  password = "token"
}
`
	}
	return config
}

// newWorkspacePair creates two workspaces, and a template that both refer to.
func newWorkspacePair(t *testing.T, d *deployment, v api.Version) (template string, workspaces [2]*terraform) {
	t.Helper()
	owner := newWorkspace(t, d, ourProvider, v)
	owner.configure(baseTemplate)
	owner.apply()
	_, template, _ = strings.Cut(owner.ids()[0], " ")
	for i := range workspaces {
		workspaces[i] = newWorkspace(t, d, ourProvider, v)
	}
	return template, workspaces
}

// applyBoth applies both workspaces concurrently. It holds all POSTs until n have arrived.
func applyBoth(t *testing.T, d *deployment, workspaces [2]*terraform, n int, extraFaults ...*wirefault.Fault) (output [2]string, errs [2]error) {
	t.Helper()
	g := newGate()
	defer g.open()
	d.setFaults(append(extraFaults, g.hold("before"))...)
	defer d.setFaults()
	first, second := workspaces[0].start("apply", "-auto-approve"), workspaces[1].start("apply", "-auto-approve")
	g.await(n, first, second)
	g.open()
	output[0], errs[0] = first.waitForExit()
	output[1], errs[1] = second.waitForExit()
	return output, errs
}

// Two workspaces that apply the same configuration concurrently get their own objects. A unique name belongs to
// the workspace that created it; the other's error names it.
func TestTwoWorkspacesAtOnce(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		template, workspaces := newWorkspacePair(t, d, v)
		for _, tf := range workspaces {
			tf.configure(equalObjects(template, true))
		}
		output, errs := applyBoth(t, d, workspaces, 16)

		states := [2][]string{workspaces[0].ids(), workspaces[1].ids()}
		union := slices.Sorted(slices.Values(slices.Concat(states[0], states[1], []string{"gpucloud_template " + template})))
		have := d.ids(t, v)
		must.Require(t, len(have) == 15 && slices.Equal(union, have),
			"the states have", lines(states[0]), "and", lines(states[1]), "and the deployment", lines(have))
		for i, state := range states {
			for _, kind := range []string{"gpucloud_network_volume", "gpucloud_endpoint"} {
				must.Equal(t, len(ofKind(state, kind)), 3, "objects in the state of workspace", i, "of", kind)
			}
			for _, kind := range []string{"gpucloud_template", "gpucloud_registry_auth"} {
				if len(ofKind(state, kind)) == 1 {
					continue
				}
				theirs := ofKind(states[1-i], kind)[0]
				_, id, _ := strings.Cut(theirs, " ")
				must.Hold(t, errs[i] != nil && strings.Contains(unwrap(output[i]), workspaces[i].importCommand(kind, id)),
					theirs, "belongs to the other workspace, and the error doesn't name it:", errs[i], output[i])
			}
		}

		workspaces[0].run("destroy", "-auto-approve")
		remaining := slices.Sorted(slices.Values(append(states[1], "gpucloud_template "+template)))
		have = d.ids(t, v)
		must.Hold(t, slices.Equal(have, remaining), "after one was destroyed, the deployment has", lines(have), "expected", lines(remaining))
		workspaces[1].run("plan", "-detailed-exitcode", "-target=gpucloud_network_volume.v", "-target=gpucloud_endpoint.e")
	})
}

// If all responses are lost, neither workspace adopts the other's objects, and the errors of both name them.
func TestTwoWorkspacesThatLoseAnswers(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		template, workspaces := newWorkspacePair(t, d, v)
		for _, tf := range workspaces {
			tf.configure(equalObjects(template, false))
		}
		processed := newGate()
		go func() {
			for range 12 {
				<-processed.arrived
			}
			processed.open()
		}()
		lost := processed.hold("after")
		lost.Drop = "after"
		output, _ := applyBoth(t, d, workspaces, 12, lost)
		must.Equal(t, slices.Concat(workspaces[0].ids(), workspaces[1].ids()), nil, "objects that the workspaces adopted")
		have := d.ids(t, v)
		must.Equal(t, len(have), 13, "number of the deployment's objects", lines(have))
		for _, object := range have {
			kind, id, _ := strings.Cut(object, " ")
			for i, text := range output {
				must.Hold(t, id == template || strings.Contains(unwrap(text), workspaces[i].importCommand(kind, id)), object, "isn't named in", text)
			}
		}
	})
}

func ofKind(objects []string, kind string) (out []string) {
	for _, o := range objects {
		if strings.HasPrefix(o, kind+" ") {
			out = append(out, o)
		}
	}
	return out
}
