// Package kit turns a table of functions into a Terraform resource. It is the
// only place that touches the framework's requests, responses and diagnostics.
package kit

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// Kind is one kind of managed object. M is its model: a struct with a tfsdk
// tag for every attribute of Schema.
//
// Verbs return what went wrong as an error; they change the model that becomes
// the state in place. Read reports absence with an error of which
// api.IsNotFound is true.
type Kind[M any] struct {
	Name     string // of the type, without the provider's prefix
	Title    string // in messages: "network volume"
	Schema   schema.Schema
	ID       func(*M) *types.String
	NewIDs   bool        // an update may give the object a new id
	Version  api.Version // the only one that has the kind; "" for both
	Only     []planrule.Only
	Validate func(ctx context.Context, c diagnostics.Check, config *M) // what the configuration alone tells
	Plan     func(ctx context.Context, p *planrule.Plan[M])
	// ExistingMatches finds what a planned create could be taken for; the plan warns
	// of it.
	ExistingMatches func(ctx context.Context, c *api.Client, plan *M) []api.ExistingMatch
	// Objects lists the kind by id and name: for list blocks, and imports by name.
	Objects func(ctx context.Context, c *api.Client) ([]api.Named, error)
	// Volatile are the computed attributes, dotted, that the server may change with any
	// update: a plan that changes anything else leaves them unknown.
	Volatile []string
	// Protected is the attribute deletion_protection, of kinds that have it.
	Protected func(*M) types.Bool
	// Loss describes what a deletion loses for good, for a warning in the plan; ""
	// is nothing.
	Loss func(state *M) string
	// Moved takes over what no API returns from the state of another provider, for moved
	// blocks. A source that it lacks has nothing of the sort.
	Moved migrate.Table[M]
	// Private points at what the private state keeps of the object: a struct that
	// JSON can hold, in a field of the model with the tag tfsdk:"-".
	Private func(*M) any

	Create func(ctx context.Context, c *api.Client, config, plan *M) error
	Read   func(ctx context.Context, c *api.Client, state *M) error
	Update func(ctx context.Context, c *api.Client, config, state, plan *M) error
	Delete func(ctx context.Context, c *api.Client, state *M) error
}

// Run is what one run of the provider shares between its resources.
type Run struct {
	Provider string // the prefix of its types: "gpucloud"
	API      *api.Client
	Catalog  *catalog.Checks

	reported  diagnostics.Run
	templates sync.Map // see planrule.Plan
}

// Client returns the API, or explains why there is none.
func (r *Run) Client(diags *diag.Diagnostics) *api.Client {
	if r == nil || r.API == nil {
		diags.AddError("The provider's settings are not known yet",
			"A setting of the provider block comes from a resource that has not been applied. "+
				"Apply that resource first (terraform or tofu apply -target), or use a value that is known in the plan.")
		return nil
	}
	return r.API
}

// Managed is a Kind of any model: a resource that list blocks find, too.
type Managed interface {
	Resource() resource.Resource
	ListResource() list.ListResource
	OneVersion() []planrule.Only
}

// Resource makes the framework's resource of the kind.
func (k *Kind[M]) Resource() resource.Resource { return &kindResource[M]{kind: k} }

// OneVersion are the attributes that one API version alone has.
func (k *Kind[M]) OneVersion() []planrule.Only { return k.Only }

// ListResource makes the framework's list resource of the kind.
func (k *Kind[M]) ListResource() list.ListResource { return &kindResource[M]{kind: k} }
