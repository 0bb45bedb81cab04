package resources_test

import (
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const repository = "arn:aws:ecr:us-east-2:123456789012:repository/team/app"

func TestRegistryDelegation(t *testing.T) {
	t.Parallel()
	const address = "gpucloud_registry_delegation.app"
	d := acctest.Deploy(t)
	config := func(resource, more string) string {
		return d.Block(api.V2) + fmt.Sprintf("resource \"gpucloud_registry_delegation\" \"app\" {\n  resource = %q\n%s}\n", resource, more)
	}
	var id string
	acctest.Run(t,
		expects(config(repository, ""), address, plancheck.ResourceActionCreate, remember(address, "id", &id),
			resource.TestCheckResourceAttr(address, "aws_region", "us-east-2"),
			resource.TestCheckResourceAttr(address, "repository", "team/app"),
			resource.TestCheckResourceAttr(address, "tag", "latest"),
			resource.TestCheckResourceAttr(address, "docker_registry_uri", "123456789012.dkr.ecr.us-east-2.amazonaws.com"),
			resource.TestCheckNoResourceAttr(address, "name")),
		imports(address),
		// The same repository in other words.
		expects(config(repository+":latest", ""), address, plancheck.ResourceActionUpdate, resource.TestCheckResourceAttrPtr(address, "id", &id)),
		expects(config(repository+":v1", ""), address, plancheck.ResourceActionReplace, resource.TestCheckResourceAttr(address, "tag", "v1")),
		imports(address),
		expects(config(repository+":v1", "  name = \"app\"\n"), address, plancheck.ResourceActionReplace, remember(address, "id", &id)),
		imports(address),
		resource.TestStep{ // revoked elsewhere: planned again
			PreConfig: func() {
				if err := d.Client(t, api.V2).Delegations.Delete(t.Context(), id); err != nil {
					t.Error(err)
				}
			},
			Config:           config(repository+":v1", "  name = \"app\"\n"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, plancheck.ResourceActionCreate)}},
		},
	)
	if left, err := d.Client(t, api.V2).Delegations.List(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestRegistryDelegationPlan(t *testing.T) {
	t.Parallel()
	d := acctest.Deploy(t)
	p := drive(t, d, api.V2)
	const typeName = "gpucloud_registry_delegation"
	for _, arn := range []string{"", "team/app", "123456789012.dkr.ecr.us-east-2.amazonaws.com/team/app", "arn:aws:ecr:us-east-2:1234:repository/app", "arn:aws:s3:us-east-2:123456789012:repository/app", repository + ":"} {
		refused(t, d, p, tfdrive.State{}, typeName, map[string]any{"resource": arn}, "resource", "expected the ARN of a repository")
	}
	refusedOnV1(t, d, typeName, map[string]any{"resource": repository})
	if planned := p.Plan(typeName, tfdrive.State{}, map[string]any{"resource": tfdrive.Unknown}); planned.Action != "create" || planned.Diagnostics.Err() != nil {
		t.Errorf("an ARN that is not known yet: %s, %s", planned.Action, planned.Diagnostics)
	}
}
