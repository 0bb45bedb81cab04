package resources_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// If Terraform can't show the location of an attribute, the text names it.
func TestMessagesNameTheirAttribute(t *testing.T) {
	t.Parallel()
	acctest.EachCLI(t, func(t *testing.T, cli tfcli.CLI) {
		t.Parallel()
		d := acctest.Deploy(t)
		w := d.Workspace(t, cli, api.V2)
		type message struct{ config, says string }
		left := []message{
			{`resource "gpucloud_network_volume" "x" {
  name        = "x"
  size        = 10.5
  data_center = "EU-RO-1"
}`, "Invalid size: expected a whole number, got 10.5."},
			{`resource "gpucloud_network_volume" "x" {
  name        = "x"
  size        = 1e30
  data_center = "EU-RO-1"
}`, "Invalid size: expected a whole number, got 1e+30."},
			{endpointWith(`workers = { max = 2.5 }`), "Invalid workers.max: expected a whole number, got 2.5."},
			{endpointWith(`cpu = [{ id = "cpu3c", vcpu_count = 4.5 }]`), "Invalid cpu[0].vcpu_count: expected a whole number, got 4.5."},
			{endpointWith(`cpu = [{ id = "cpu3c", vcpu_count = 3 }]`), "Invalid cpu[0].vcpu_count: expected a power of two from 2 up, got 3."},
			{endpointWith(`gpu = { pool = ["ADA_24"] }`), "gpu needs gpu.pools (API v2) or gpu.type_ids. Terraform drops a misspelt attribute"},
			{endpointWith(`gpu = { pools = ["ADA_24"], type_ids = ["NVIDIA L4"] }`), "gpu.pools conflicts with gpu.type_ids"},
			{endpointWith(`gpu = { type_ids = ["NVIDIA L4"], excluded_types = ["NVIDIA L4"] }`), "gpu.excluded_types needs gpu.pools"},
			{endpointWith(`gpu = { pools = ["ADA_24"], excluded_types = ["NVIDIA B200"] }`), "Invalid gpu.excluded_types: expected GPU types of the pools ADA_24"},
			{endpointWith(`gpu = { pools = ["ADA_24"], min_cuda_version = "12" }`), "Invalid gpu.min_cuda_version: expected a CUDA version"},
			{endpointWith(`workers = { min = 4 }`), "workers.min is 4 and workers.max is 3"},
			{endpointWith(`env = { "A=B" = "x" }`), `Invalid env["A=B"]: expected a name of at least one character, without = and NUL`},
			{`resource "gpucloud_template" "x" {
  name   = "x"
  image  = "i"
  mounts = { persistent = { size = 5, path = "/x" } }
}`, "mounts.persistent.size: A persistent mount has at least 10 GB"},
			{`resource "gpucloud_registry_auth" "x" {
  name     = "x"
  username = "u"
}`, "Set password_wo and password_wo_version, or password"},
		}
		// The first plan reports invalid settings. The second, without these, runs the plan rules.
		for range 2 {
			config := ""
			for i, c := range left {
				config += strings.Replace(c.config, `"x"`, fmt.Sprintf(`"x%d"`, i), 1) + "\n"
			}
			w.Write("main.tf", config)
			out, err := w.Run("plan")
			if err == nil {
				t.Errorf("planned:\n%s", config)
			}
			left = slices.DeleteFunc(left, func(c message) bool { return strings.Contains(unwrap(out), c.says) })
			for _, bad := range []string{"%!", "always an error in the provider", "<."} {
				if strings.Contains(out, bad) {
					t.Errorf("%q is in:\n%s", bad, out)
				}
			}
		}
		for _, c := range left {
			t.Errorf("no plan says %q of\n%s", c.says, c.config)
		}
	})
}
