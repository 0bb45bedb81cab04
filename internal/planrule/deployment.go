package planrule

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// deploymentKey is the key in the private state for the address of the deployment where the
// object was last seen.
const deploymentKey = "deployment"

// Private is the private state of an object, which Terraform stores and doesn't show.
type Private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// GetKey reads a key of the private state. It returns nil if the key doesn't exist.
func GetKey(ctx context.Context, p Private, key string, diags *diag.Diagnostics) []byte {
	text, failure := p.GetKey(ctx, key)
	diags.Append(failure...)
	return text
}

// WarnOfUnreadable warns that a part of the private state is dropped.
func WarnOfUnreadable(diags *diag.Diagnostics, what string, err error) {
	diags.AddWarning("A part of the state can't be read", fmt.Sprintf("The private state about %s can't be read: %s. The provider drops it, as if the object were imported. "+
		"Write-only values can't be compared until they are sent again: raise their version, such as env_wo_version.", what, err))
}

// RecordDeployment records the deployment where an object was seen.
func RecordDeployment(ctx context.Context, p Private, c *api.Client) (diags diag.Diagnostics) {
	address, err := json.Marshal(c.BaseURL())
	if err != nil {
		diags.AddError("Could not record the deployment", err.Error())
		return diags
	}
	return p.SetKey(ctx, deploymentKey, address)
}

// WarnOfAnotherDeployment warns about a missing object that was last seen at another address.
// Without the warning, environment variables that select a wrong deployment would empty the state
// silently.
func WarnOfAnotherDeployment(ctx context.Context, p Private, c *api.Client, title, id string) (diags diag.Diagnostics) {
	text := GetKey(ctx, p, deploymentKey, &diags)
	var address string
	if err := json.Unmarshal(text, &address); text != nil && err != nil {
		WarnOfUnreadable(&diags, "the deployment of "+id, err)
	}
	if address != "" && !api.SameDeployment(address, c.BaseURL()) {
		diags.AddWarning("Another deployment than before", fmt.Sprintf("The %s %s was seen at %s. The provider's address is %s now, where the object doesn't exist. The refresh treats it as deleted and removes it from the state. "+
			"If this is a mistake, don't apply. Set base_url or GPUCLOUD_BASE_URL to the former address, or service to the former service.", title, id, address, c.BaseURL()))
	}
	return diags
}
