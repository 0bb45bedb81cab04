// Package kit turns a table of functions into a Terraform resource. It is the
// only place that touches the framework's requests, responses and diagnostics.
package kit

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planned"
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
	Only     []planrule.Only
	Validate func(ctx context.Context, c diagnostics.Check, config *M) // what the configuration alone tells
	Plan     func(ctx context.Context, p *planrule.Plan[M])
	// ExistingMatches finds what a planned create could be taken for; the plan warns
	// of it.
	ExistingMatches func(ctx context.Context, c *api.Client, plan *M) []api.ExistingMatch
	// Loss describes what a deletion loses for good, for a warning in the plan; ""
	// is nothing.
	Loss func(state *M) string
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
	Planned  *planned.Notes

	reported diagnostics.Run
}

// Resource makes the framework's constructor for the kind.
func (k *Kind[M]) Resource() resource.Resource { return &kindResource[M]{kind: k} }
