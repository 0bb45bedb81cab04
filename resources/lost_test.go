package resources_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// wire is a proxy between provider and deployment. It loses the answers to the next lose POSTs.
// If twice is set, it sends these POSTs twice.
type wire struct {
	lose  atomic.Int64
	twice atomic.Bool
}

func wireTo(t *testing.T, d *acctest.Deployment) *wire {
	t.Helper()
	w := &wire{}
	intercept(t, d, func(out http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
		var faults []*wirefault.Fault
		if r.Method == http.MethodPost && w.lose.Add(-1) >= 0 {
			lost := &wirefault.Fault{Drop: "after"}
			if w.twice.Load() {
				lost.Again = &wirefault.Edit{}
			}
			faults = append(faults, lost)
		}
		wirefault.Handler(forward, wirefault.Deployment{}, faults...).ServeHTTP(out, r)
	})
	return w
}

// everyKind returns a minimal configuration of each kind.
func everyKind(d *acctest.Deployment, template string) map[string]map[string]any {
	return map[string]map[string]any{
		"gpucloud_template":       {"name": d.Name("tt"), "image": "i:1", "env": map[string]any{"A": "1"}, "ports": []any{"80/http", "22/tcp"}},
		"gpucloud_network_volume": {"name": d.Name("v"), "size": 10, "data_center": "EU-RO-1"},
		"gpucloud_registry_auth":  {"name": d.Name("r"), "username": "u", "password": "p"},
		"gpucloud_endpoint": {"name": d.Name("e"), "template_id": template, "gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}},
			"workers": map[string]any{"min": 0, "max": 2}},
	}
}

// If the answer to a create is lost, the object is in the state and the next plan is empty. An
// object with secrets is created again, because no answer shows whether they were stored.
func TestLostCreateEndsInTheState(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		w := wireTo(t, d)
		p := drive(t, d, v)
		template, _ := serverlessTemplate(t, d, p, nil)
		for kind, config := range everyKind(d, template.Get("id").(string)) {
			w.lose.Store(1)
			writes, expected := d.Writes(), int64(1)
			if kind == "gpucloud_registry_auth" {
				expected = 3 // POST, DELETE, POST
			}
			apply(t, p.Walk(), kind, tfdrive.State{}, config, "create")
			must.Equal(t, d.Writes()-writes, expected, kind, "writes")
		}
		auths := must.Do(d.Client(t, v).RegistryAuths.List(t.Context()))(t)
		must.Hold(t, len(auths) == 1, len(auths), "auths")
	})
}

// If a lost create leaves two equal objects, the error and the next plan name both and the import
// command, and nothing more is created.
func TestAmbiguousLostCreate(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		w := wireTo(t, d)
		p := drive(t, d, v)
		config := everyKind(d, "")["gpucloud_network_volume"]
		w.lose.Store(1)
		w.twice.Store(true)
		state, diags := p.Apply(p.Plan("gpucloud_network_volume", tfdrive.State{}, config))
		if state.Exists() || diags.Err() == nil {
			t.Fatalf("the create chose an object: %v, %s", state.Value, diags)
		}
		created, err := d.Client(t, v).NetworkVolumes.List(t.Context())
		if err != nil || len(created) != 2 {
			t.Fatalf("%d volumes, %v", len(created), err)
		}
		planned := p.Walk().Plan("gpucloud_network_volume", tfdrive.State{}, config)
		for _, volume := range created {
			for _, text := range []string{diags.Err().Error(), planned.Diagnostics.Warnings()} {
				must.Contain(t, text, "terraform import gpucloud_network_volume.NAME "+volume.ID)
			}
		}
	})
}

// A provider that is killed between a POST and its answer leaves an object that is in no state.
// The next plan names it and the import command. If names are unique, the apply fails instead of
// adopting the object, which may belong to another configuration. The import adopts it.
func TestObjectOfAKilledRun(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		killed, p := drive(t, d, v), drive(t, d, v)
		template, _ := serverlessTemplate(t, d, p, nil)
		for kind, config := range everyKind(d, template.Get("id").(string)) {
			left, diags := killed.Walk().Apply(killed.Plan(kind, tfdrive.State{}, config))
			must.Succeed(t, diags.Err())
			id := left.Get("id").(string)
			command := "terraform import " + kind + ".NAME " + id
			planned := p.Walk().Plan(kind, tfdrive.State{}, config)
			if !strings.Contains(planned.Diagnostics.Warnings(), command) {
				t.Errorf("%s: the plan warns %q", kind, planned.Diagnostics.Warnings())
			}
			if unique := kind == "gpucloud_template" || kind == "gpucloud_registry_auth"; unique {
				state, diags := p.Apply(planned)
				err := diags.Err()
				must.Hold(t, err != nil && !state.Exists() && strings.Contains(err.Error(), command), kind, state.Value, diags)
			}
			state, diags := p.Walk().Import(kind, id)
			must.Hold(t, diags.Err() == nil && state.Exists(), kind, "import", diags)
			err := killed.Walk().Destroy(left).Err()
			must.Hold(t, err == nil, kind, err)
		}
	})
}

// An update of an object that was deleted after the plan fails and says how to create the object
// again.
func TestUpdateOfADeletedObject(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		p := drive(t, d, v)
		template, _ := serverlessTemplate(t, d, p, nil)
		kinds := everyKind(d, template.Get("id").(string))
		delete(kinds, "gpucloud_registry_auth") // an update creates it
		for kind, config := range kinds {
			state := apply(t, p, kind, tfdrive.State{}, config, "create")
			planned := p.Plan(kind, state, with(config, map[string]any{"name": d.Name("renamed")}))
			must.Succeed(t, p.Walk().Destroy(state).Err())
			_, diags := p.Walk().Apply(planned)
			must.Contain(t, fmt.Sprint(diags.Err()), "was deleted after the plan. Plan again to create it")
		}
	})
}

// A create never adopts an object of the same name, whether another workspace created it before
// or after the plan, even if the answer to the POST was lost.
func TestCreateRejectsTakenName(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		other := drive(t, d, v)
		w := wireTo(t, d)
		p := drive(t, d, v)
		for _, kind := range []string{"gpucloud_template", "gpucloud_registry_auth"} {
			for what, madeAfter := range map[string]bool{"before the plan": false, "after the plan": true} {
				for _, lost := range []int64{0, 1} {
					config := with(everyKind(d, "")[kind], map[string]any{"name": d.Name(fmt.Sprint(kind, madeAfter, lost))})
					var planned tfdrive.Planned
					if madeAfter {
						planned = p.Walk().Plan(kind, tfdrive.State{}, config)
					}
					theirs := apply(t, other.Walk(), kind, tfdrive.State{}, config, "create")
					if !madeAfter {
						planned = p.Walk().Plan(kind, tfdrive.State{}, config)
						must.Contain(t, planned.Diagnostics.Warnings(), "terraform import "+kind+".NAME")
					}
					w.lose.Store(lost)
					state, diags := p.Apply(planned)
					err := diags.Err()
					must.Hold(t, err != nil && !state.Exists() && strings.Contains(err.Error(), "NAME "+theirs.Get("id").(string)), kind, "made", what, lost, "lost", state.Value, diags)
					if read, diags := other.Walk().Read(theirs); diags.Err() != nil || !read.Exists() {
						t.Errorf("%s, made %s, %d lost: it is gone: %s", kind, what, lost, diags)
					}
				}
			}
		}
	})
}
