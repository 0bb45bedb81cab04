package datasources_test

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// With each CLI, the plan reads a data source whose configuration is known, and the apply reads the
// others. An error is reported by the plan, and nothing is written.
func TestDataSourcesWithEachCLI(t *testing.T) {
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		d := acctest.Deploy(t)
		endpoint := makeEndpoint(t, d)
		w := d.Workspace(t, cli, api.V2)
		lookups := `
data "gpucloud_endpoints" "queues" {
  type = "QUEUE"
}
data "gpucloud_endpoint_health" "e" {
  endpoint_id = data.gpucloud_endpoints.queues.endpoints[0].id
}
data "gpucloud_gpu_type" "l4" {
  name = "L4"
}
data "gpucloud_billing" "hour" {
  bucket_size = "hour"
  last_n      = 1
}
output "endpoint" {
  value = data.gpucloud_endpoint_health.e.endpoint_id
}
`
		w.Write("main.tf", lookups)
		writes := d.Writes()
		must.Contain(t, w.MustRun("plan"), endpoint)
		must.Equal(t, d.Writes(), writes, "a plan sent a write")
		w.Write("main.tf", lookups+`
resource "gpucloud_network_volume" "v" {
  name        = "v"
  size        = 10
  data_center = "EU-RO-1"
}
data "gpucloud_network_volume" "v" {
  id = gpucloud_network_volume.v.id
}
`)
		must.Contain(t, w.MustRun("plan"), "known after apply", `data.gpucloud_network_volume.v will be read during apply`)
		w.MustRun("apply", "-auto-approve")
		must.Contain(t, w.MustRun("plan"), "No changes.")
		w.Write("main.tf", lookups+"data \"gpucloud_network_volume\" \"w\" {\n  name = \"w\"\n}\n")
		out, err := w.Run("plan")
		text := strings.Join(strings.Fields(strings.ReplaceAll(out, "│", "")), " ")
		must.Hold(t, err != nil && strings.Contains(text, `no network volume is named "w"; these are similar: "v" (`), "expected an error of the plan", err, out)
	})
}
