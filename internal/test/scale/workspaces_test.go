//go:build unix

package scale_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// equalObjects returns a configuration of three equal volumes and endpoints. If unique is set,
// it also has objects of kinds with unique names.
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

// shared creates two workspaces, and a template that both refer to.
func shared(t *testing.T, d *deployment, v api.Version) (template string, both [2]*terraform) {
	t.Helper()
	owner := workspace(t, d, ours, v)
	owner.configure(base)
	owner.apply()
	_, template, _ = strings.Cut(owner.ids()[0], " ")
	for i := range both {
		both[i] = workspace(t, d, ours, v)
	}
	return template, both
}

// together applies both workspaces concurrently. It holds all POSTs until n have arrived.
func together(t *testing.T, d *deployment, both [2]*terraform, n int, more ...*wirefault.Fault) (output [2]string, errs [2]error) {
	t.Helper()
	g := newGate()
	defer g.open()
	d.setFaults(append(more, g.hold("before"))...)
	defer d.setFaults()
	one, other := both[0].start("apply", "-auto-approve"), both[1].start("apply", "-auto-approve")
	g.await(n, one, other)
	g.open()
	output[0], errs[0] = one.end(patience)
	output[1], errs[1] = other.end(patience)
	return output, errs
}

// If two workspaces with the same configuration are applied concurrently, each gets its own
// objects. An object with a unique name belongs to the workspace that created it, and the
// other's error names it. Destroying one workspace doesn't affect the other.
func TestTwoWorkspacesAtOnce(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		template, both := shared(t, d, v)
		for _, tf := range both {
			tf.configure(equalObjects(template, true))
		}
		output, errs := together(t, d, both, 16)

		states := [2][]string{both[0].ids(), both[1].ids()}
		union := slices.Sorted(slices.Values(slices.Concat(states[0], states[1], []string{"gpucloud_template " + template})))
		if have := d.ids(t, v); len(have) != 15 || !slices.Equal(union, have) {
			t.Fatalf("the states have%s\nand%s\nand the deployment%s", lines(states[0]), lines(states[1]), lines(have))
		}
		for i, kept := range states {
			for _, kind := range []string{"gpucloud_network_volume", "gpucloud_endpoint"} {
				must.Equal(t, len(ofKind(kept, kind)), 3, "a state", "objects", kind)
			}
			for _, kind := range []string{"gpucloud_template", "gpucloud_registry_auth"} {
				if len(ofKind(kept, kind)) == 1 {
					continue
				}
				theirs := ofKind(states[1-i], kind)[0]
				_, id, _ := strings.Cut(theirs, " ")
				if errs[i] == nil || !strings.Contains(unwrapped(output[i]), both[i].importCommand(kind, id)) {
					t.Errorf("%s belongs to the other workspace and isn't named: %v\n%s", theirs, errs[i], output[i])
				}
			}
		}

		both[0].run("destroy", "-auto-approve")
		rest := slices.Sorted(slices.Values(append(states[1], "gpucloud_template "+template)))
		if have := d.ids(t, v); !slices.Equal(have, rest) {
			t.Errorf("after one was destroyed, the deployment has%s\nexpected%s", lines(have), lines(rest))
		}
		both[1].run("plan", "-detailed-exitcode", "-target=gpucloud_network_volume.v", "-target=gpucloud_endpoint.e")
	})
}

// If all responses are lost, neither workspace adopts an object that the other may have created,
// and both name it.
func TestTwoWorkspacesThatLoseAnswers(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		template, both := shared(t, d, v)
		for _, tf := range both {
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
		output, _ := together(t, d, both, 12, lost)
		if kept := slices.Concat(both[0].ids(), both[1].ids()); len(kept) != 0 {
			t.Errorf("adopted objects:%s", lines(kept))
		}
		have := d.ids(t, v)
		if len(have) != 13 {
			t.Errorf("the deployment has%s", lines(have))
		}
		for _, object := range have {
			kind, id, _ := strings.Cut(object, " ")
			for i, text := range output {
				must.Hold(t, id == template || strings.Contains(unwrapped(text), both[i].importCommand(kind, id)), object, "isn't named", text)
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
