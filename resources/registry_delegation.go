package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// RegistryDelegation is gpucloud_registry_delegation: access to the images of a
// repository in AWS ECR, without a stored credential.
var RegistryDelegation = newCollectionKind(kit.Kind[registryDelegation]{
	Name:    "registry_delegation",
	Schema:  registryDelegationSchema,
	Version: api.V2,
	Moved:   movedRegistryDelegation,
	Plan:    planRegistryDelegation,
	// An update changes only the spelling of the ARN: all other changes replace the delegation.
	Update: func(context.Context, *api.Client, *registryDelegation, *registryDelegation, *registryDelegation) error {
		return nil
	},
}, func(c *api.Client) *api.Collection[api.Delegation] { return c.Delegations }, nil, (*registryDelegation).flatten)

var registryDelegationSchema = schema.Schema{
	MarkdownDescription: "A registry delegation: the deployment may pull images of a repository in AWS ECR, without a stored credential. " +
		"The repository's own policy has to allow it. A delegation can't be changed: a change replaces it. API v2 only.",
	Attributes: map[string]schema.Attribute{
		"id": idAttribute("delegation"),
		"resource": schema.StringAttribute{
			Required: true,
			MarkdownDescription: "ARN of the repository, such as `arn:aws:ecr:us-east-2:123456789012:repository/team/app`. " +
				"A `:tag` may follow; default `latest`. Forces replacement.",
			Validators: []validator.String{formRule(contract.ECRRepository)},
		},
		"name": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Name of the delegation. It need not be unique. Forces replacement.",
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:          []validator.String{rule.NonEmpty},
		},
		"delegator_user_id":   stableText("Id of the user that made the delegation."),
		"aws_user":            stableText("AWS account in the ARN."),
		"aws_region":          stableText("AWS region of the repository."),
		"repository":          stableText("Name of the repository."),
		"tag":                 stableText("Tag of the images."),
		"docker_registry_uri": stableText("Host of the registry, for names of images; null if the API returns none."),
		"created_at":          stableText("When the delegation was created, as RFC 3339."),
	},
}

type registryDelegation struct {
	ID, Resource, Name, DelegatorUserID, AWSUser, AWSRegion, Repository, Tag, DockerRegistryURI, CreatedAt types.String
}

// planRegistryDelegation replaces the delegation only if the repository or tag changes. An ARN without
// a tag has the tag latest.
func planRegistryDelegation(ctx context.Context, p *planrule.Plan[registryDelegation]) {
	if p.Changes(ctx, "resource") && (p.Plan.Resource.IsUnknown() || !api.SameRepository(p.State.Resource.ValueString(), p.Plan.Resource.ValueString())) {
		p.Replace("resource")
	}
}

func (m *registryDelegation) flatten(got api.Delegation) {
	if got.Repository == "" || got.AWSRegion == "" || api.SameRepository(m.Resource.ValueString(), got.Resource) {
		got.Resource = m.Resource.ValueString()
	}
	got.Name = new(deref(got.Name))
	value.Flatten(got, m)
}
