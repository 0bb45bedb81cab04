package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// A new reference to a missing object is rejected, even if the object existed before.
func TestNewReferencesMustExist(t *testing.T) {
	d := acctest.Deploy(t)
	p, c := drive(t, d, api.V2), d.Client(t, api.V2)
	volume := newObject(t, p, volumeType)
	auth := newObject(t, p, "gpucloud_registry_auth")
	config := map[string]any{"name": "e", "image": "builtin/echo", "network_volumes": []any{volume}, "registry": auth}
	state := apply(t, p, endpointType, tfdrive.State{}, config, "create")
	must.Succeed(t, c.NetworkVolumes.Delete(t.Context(), volume.(string)))
	must.Succeed(t, c.RegistryAuths.Delete(t.Context(), auth.(string)))
	state = refresh(t, p, refresh(t, p, state)) // a second read finds the same
	planned := expectPlan(t, p, endpointType, state, config, "update", "The network volume is gone", "The registry auth is gone")
	must.Hold(t, tfdrive.Err(p.Apply(planned)) != nil, "the apply went on without the volume")
	p.Reconfigure()
	calls := d.Calls(func() {
		for range 20 {
			p.Plan(endpointType, state, config)
		}
	})
	for call, n := range calls {
		must.Hold(t, n <= 1, "twenty plans ask", n, "×", call)
	}
	expectRejection(t, d, p, state, endpointType, withChanges(config, map[string]any{"network_volumes": []any{"another"}}), "network_volumes", "which does not exist")
	expectRejection(t, d, p, state, endpointType, withChanges(config, map[string]any{"network_volumes": nil, "registry": "another"}), "registry", "which does not exist")
	expectRejection(t, d, p, tfdrive.State{}, endpointType, withChanges(config, map[string]any{"registry": nil}), "network_volumes", "which does not exist")

	// A reference that was removed from the configuration counts as new again.
	without := withChanges(config, map[string]any{"network_volumes": nil, "registry": nil})
	state = apply(t, p, endpointType, state, without, "no-op")
	state = apply(t, p, endpointType, state, withChanges(without, map[string]any{"name": "another"}), "update")
	expectRejection(t, d, p, state, endpointType, withChanges(config, map[string]any{"registry": nil}), "network_volumes", "which does not exist")
}

// No plan rule prevents a destroy. A volume may shrink only with -replace.
func TestCLIDestroyDespiteRules(t *testing.T) {
	acctest.LeaveToCI(t, "TestNetworkVolumeSizes covers the rule over the protocol")
	eachCLIAndVersion(t, func(t *testing.T, d *acctest.Deployment, w *acctest.Workspace, v api.Version) {
		c := d.Client(t, v)
		volume := func(name string, size int) string {
			return fmt.Sprintf("resource \"gpucloud_network_volume\" %q {\n  name        = %[1]q\n  size        = %d\n  data_center = \"EU-RO-1\"\n}\n", name, size)
		}
		template := "resource \"gpucloud_template\" \"t\" {\n  name = \"" + d.Name("t") + "\"\n  image = \"i\"\n  serverless = true\n}\n"
		endpoint := func(gpu string) string {
			return "resource \"gpucloud_endpoint\" \"e\" {\n  name = \"e\"\n  template_id = gpucloud_template.t.id\n  gpu = { type_ids = [\"" + gpu + "\"] }\n}\n"
		}
		authInUse := "resource \"gpucloud_registry_auth\" \"r\" {\n  name = \"" + d.Name("r") + "\"\n  username = \"u\"\n  password = \"p\"\n}\n" +
			"resource \"gpucloud_pod\" \"p\" {\n  name = \"p\"\n  image = \"i\"\n  cpu = { id = \"cpu3c\", vcpu_count = 2 }\n  registry = gpucloud_registry_auth.r.id\n}\n"
		w.Write("main.tf", authInUse+volume("a", 20)+volume("b", 20)+template+endpoint("NVIDIA L4"))
		w.MustRun("apply", "-auto-approve")
		expectOutput(t, w.MustRun("plan", "-replace=gpucloud_registry_auth.r"), "A pod uses the registry auth")

		w.Write("main.tf", volume("a", 12)+volume("b", 20)+template+endpoint("NVIDIA L4"))
		out, err := w.Run("plan")
		must.Hold(t, err != nil, "a smaller volume is planned", out)
		w.MustRun("apply", "-auto-approve", "-replace=gpucloud_network_volume.a")
		w.Write("main.tf", volume("a", 11)+volume("b", 12)+template+endpoint("NVIDIA L4"))
		out, err = w.Run("apply", "-auto-approve", "-replace=gpucloud_network_volume.a")
		must.Hold(t, err != nil && strings.Contains(unwrap(out), "has 20 GB and the configuration asks for 12 GB"),
			"a volume that is not replaced shrinks", err, out)

		for _, existing := range must.Do(c.NetworkVolumes.List(t.Context()))(t) {
			edit(t, c.NetworkVolumes, existing.ID, func(volume *api.NetworkVolume) { volume.Size = 30 })
		}
		w.Write("main.tf", volume("a", 20)+volume("b", 20)+template+endpoint("NVIDIA L5")+
			"resource \"gpucloud_endpoint\" \"new\" {\n  name = \"new\"\n  template_id = \"none\"\n  gpu = { type_ids = [\"none\"] }\n  cpu = [{ id = \"c\", vcpu_count = 2 }]\n}\n")
		w.MustRun("plan", "-destroy")
		w.MustRun("destroy", "-auto-approve")
		must.Equal(t, must.Do(c.NetworkVolumes.List(t.Context()))(t), nil, "the volumes after the destroy")
	})
}
