package resources_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

const delegationType = "gpucloud_registry_delegation"

const repository = "arn:aws:ecr:us-east-2:123456789012:repository/team/app"

func TestRegistryDelegation(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	config := map[string]any{"resource": repository}
	created := apply(t, p, delegationType, tfdrive.State{}, config, "create")
	expectState(t, created, map[string]any{
		"aws_region": "us-east-2", "repository": "team/app", "tag": "latest", "docker_registry_uri": "123456789012.dkr.ecr.us-east-2.amazonaws.com", "name": nil,
	})
	expectImport(t, p, created, config, false)
	// Another spelling of the same repository.
	state := apply(t, p, delegationType, created, map[string]any{"resource": repository + ":latest"}, "update")
	expectState(t, state, map[string]any{"id": created.Get("id")})
	config["resource"] = repository + ":v1"
	state = apply(t, p, delegationType, state, config, "replace")
	expectState(t, state, map[string]any{"tag": "v1"})
	expectImport(t, p, state, config, false)
	config["name"] = "app"
	state = apply(t, p, delegationType, state, config, "replace")
	expectImport(t, p, state, config, false)
	must.Succeed(t, p.Destroy(state).Err())
	must.Equal(t, must.Do(d.Client(t, api.V2).Delegations.List(t.Context()))(t), nil, "the delegations after the deletion")
}

func TestRegistryDelegationPlan(t *testing.T) {
	t.Parallel()
	d, p := deploy(t)
	for _, arn := range []string{"", "team/app", "123456789012.dkr.ecr.us-east-2.amazonaws.com/team/app", "arn:aws:ecr:us-east-2:1234:repository/app", "arn:aws:s3:us-east-2:123456789012:repository/app", repository + ":"} {
		expectRejection(t, d, p, tfdrive.State{}, delegationType, map[string]any{"resource": arn}, "resource", "expected the ARN of an ECR repository")
	}
	expectRejectionOnV1(t, d, delegationType, map[string]any{"resource": repository})
	expectPlan(t, p, delegationType, tfdrive.State{}, map[string]any{"resource": tfdrive.Unknown}, "create")
}
