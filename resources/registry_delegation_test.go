package resources_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const repository = "arn:aws:ecr:us-east-2:123456789012:repository/team/app"

func TestRegistryDelegation(t *testing.T) {
	t.Parallel()
	const typeName = "gpucloud_registry_delegation"
	d, p := deploy(t)
	config := map[string]any{"resource": repository}
	created := apply(t, p, typeName, tfdrive.State{}, config, "create")
	expectState(t, created, map[string]any{
		"aws_region": "us-east-2", "repository": "team/app", "tag": "latest", "docker_registry_uri": "123456789012.dkr.ecr.us-east-2.amazonaws.com", "name": nil,
	})
	expectImport(t, p, created, config, false)
	// Another spelling of the same repository.
	state := apply(t, p, typeName, created, map[string]any{"resource": repository + ":latest"}, "update")
	expectState(t, state, map[string]any{"id": created.Get("id")})
	config["resource"] = repository + ":v1"
	state = apply(t, p, typeName, state, config, "replace")
	expectState(t, state, map[string]any{"tag": "v1"})
	expectImport(t, p, state, config, false)
	config["name"] = "app"
	state = apply(t, p, typeName, state, config, "replace")
	expectImport(t, p, state, config, false)
	diags := p.Destroy(state)
	must.Hold(t, diags.Err() == nil, diags)
	must.Equal(t, must.Do(d.Client(t, api.V2).Delegations.List(t.Context()))(t), nil, "left")
}

func TestRegistryDelegationPlan(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	const typeName = "gpucloud_registry_delegation"
	for _, arn := range []string{"", "team/app", "123456789012.dkr.ecr.us-east-2.amazonaws.com/team/app", "arn:aws:ecr:us-east-2:1234:repository/app", "arn:aws:s3:us-east-2:123456789012:repository/app", repository + ":"} {
		expectRefusal(t, d, p, tfdrive.State{}, typeName, map[string]any{"resource": arn}, "resource", "expected the ARN of a repository")
	}
	expectRefusalOnV1(t, d, typeName, map[string]any{"resource": repository})
	planned := p.Plan(typeName, tfdrive.State{}, map[string]any{"resource": tfdrive.Unknown})
	must.Hold(t, planned.Action == "create" && planned.Diagnostics.Err() == nil, "an ARN that is not known yet", planned.Action, planned.Diagnostics)
}
