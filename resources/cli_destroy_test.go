package resources_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// What an object refers to is deleted elsewhere: a plan warns, an apply is refused and
// ends nothing, and the object can be destroyed.
func TestCLIDestroyWithoutReferences(t *testing.T) {
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		c := d.Client(t, v)
		volume := func() string {
			got, err := c.NetworkVolumes.Create(t.Context(), api.NetworkVolume{Name: d.Name("v"), Size: 10, DataCenter: "EU-RO-1"})
			if err != nil {
				t.Fatal(err)
			}
			return got.ID
		}
		followed, err := c.Templates.Create(t.Context(), api.Template{Name: d.Name("t"), Image: "builtin/echo", Disk: 10, Category: "NVIDIA", Serverless: true})
		if err != nil {
			t.Fatal(err)
		}
		one, other := volume(), volume()
		w.Write("main.tf", `
resource "gpucloud_endpoint" "e" {
  name            = "e"
  template_id     = "`+followed.ID+`"
  network_volumes = ["`+one+`"]
}
resource "gpucloud_pod" "p" {
  name   = "p"
  image  = "builtin/echo"
  cpu    = { id = "cpu3c", vcpu_count = 2 }
  mounts = { network = [{ volume_id = "`+other+`", path = "/data" }] }
}
`)
		w.MustRun("apply", "-auto-approve")
		for _, id := range []string{one, other} {
			if err := c.NetworkVolumes.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if v == api.V2 { // v1 has a link, and refuses to delete the template
			if err := c.Templates.Delete(t.Context(), followed.ID); err != nil {
				t.Fatal(err)
			}
		}
		out := w.MustRun("plan")
		says(t, out, "The network volume is gone", "network_volumes names the network volume "+one)
		if v == api.V2 {
			says(t, out, "The template is gone")
		}
		if strings.Contains(out, "must be replaced") {
			t.Errorf("the pod would be replaced, and could not be made again:\n%s", out)
		}
		if out, err := w.Run("apply", "-auto-approve"); err == nil {
			t.Errorf("the apply went on without the volumes:\n%s", out)
		} else {
			says(t, out, "the network volume "+other+" does not exist any more, and the pod runs without it")
		}
		pods, err := c.Pods.List(t.Context())
		if err != nil || len(pods) != 1 {
			t.Errorf("after the refused apply there are %d pods, %v", len(pods), err)
		}
		w.MustRun("plan", "-destroy")
		w.MustRun("destroy", "-auto-approve")
	})
}

// A reference that is new to the object is refused, also where what it names is gone.
func TestNewReferencesMustExist(t *testing.T) {
	d := acctest.Deploy(t)
	p, c := drive(t, d, api.V2), d.Client(t, api.V2)
	volume := func(name string) map[string]any {
		return map[string]any{"name": d.Name(name), "size": 10, "data_center": "EU-RO-1"}
	}
	had := apply(t, p, volumeType, tfdrive.State{}, volume("had"), "create").Get("id")
	auth := apply(t, p, "gpucloud_registry_auth", tfdrive.State{}, map[string]any{"name": d.Name("a"), "username": "u", "password": "p"}, "create").Get("id")
	config := map[string]any{"name": "e", "image": "builtin/echo", "network_volumes": []any{had}, "registry": auth}
	state := apply(t, p, endpointType, tfdrive.State{}, config, "create")
	if err := c.NetworkVolumes.Delete(t.Context(), had.(string)); err != nil {
		t.Fatal(err)
	}
	if err := c.RegistryAuths.Delete(t.Context(), auth.(string)); err != nil {
		t.Fatal(err)
	}
	state, _ = p.Walk().Read(state)
	state, _ = p.Walk().Read(state) // also what an earlier read has found
	planned := p.Plan(endpointType, state, config)
	if err := planned.Diagnostics.Err(); err != nil || planned.Action != "update" {
		t.Errorf("planned to %s, %v", planned.Action, err)
	}
	for _, text := range []string{"The network volume is gone", "The registry auth is gone"} {
		if !strings.Contains(planned.Diagnostics.Warnings(), text) {
			t.Errorf("%s is not among the warnings: %s", text, planned.Diagnostics.Warnings())
		}
	}
	if _, diags := p.Apply(planned); diags.Err() == nil {
		t.Error("the apply went on without the volume")
	}
	p.Walk()
	calls := d.Calls(func() {
		for range 20 {
			p.Plan(endpointType, state, config)
		}
	})
	for call, n := range calls {
		if n > 1 {
			t.Errorf("twenty plans ask %d × %s", n, call)
		}
	}
	refused(t, d, p, state, endpointType, with(config, map[string]any{"network_volumes": []any{"another"}}), "network_volumes", "which does not exist")
	refused(t, d, p, state, endpointType, with(config, map[string]any{"network_volumes": nil, "registry": "another"}), "registry", "which does not exist")
	refused(t, d, p, tfdrive.State{}, endpointType, config, "network_volumes", "which does not exist")

	// What the configuration gave up is new again.
	without := with(config, map[string]any{"network_volumes": nil, "registry": nil})
	state = apply(t, p, endpointType, state, without, "no-op")
	state = apply(t, p, endpointType, state, with(without, map[string]any{"name": "another"}), "update")
	refused(t, d, p, state, endpointType, config, "network_volumes", "which does not exist")
}
