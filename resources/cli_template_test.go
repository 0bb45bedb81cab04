package resources_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

// A plan that is never applied doesn't affect later runs. terraform test has several runs in one
// process.
func TestPlanThatIsNotApplied(t *testing.T) {
	t.Parallel()
	eachCLIAndVersion(t, func(t *testing.T, _ *acctest.Deployment, w *acctest.Workspace, _ api.Version) {
		w.Write("main.tf", `
variable "image" { default = "img:1" }
resource "gpucloud_template" "t" {
  name       = "t"
  image      = var.image
  serverless = true
}
output "id" { value = gpucloud_template.t.id }
`)
		w.Write("endpoint/main.tf", `
terraform {
  required_providers { gpucloud = { source = "gpucloud/gpucloud" } }
}
variable "id" {}
resource "gpucloud_endpoint" "e" {
  name        = "e"
  template_id = var.id
}
`)
		w.Write("run.tftest.hcl", `
run "make" {}
run "endpoint" {
  module { source = "./endpoint" }
  variables { id = run.make.id }
}
run "only_planned" {
  command = plan
  variables { image = "img:2" }
}
run "endpoint_again" {
  module { source = "./endpoint" }
  variables { id = run.make.id }
  assert {
    condition     = gpucloud_endpoint.e.from_template.image == "img:1"
    error_message = "the plan was applied to the endpoint"
  }
}
`)
		w.MustRun("get")
		expectOutput(t, w.MustRun("test"), "4 passed, 0 failed")
	})
}
