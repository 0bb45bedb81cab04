// Package kit turns a table of functions into a Terraform resource. It handles the framework's requests and
// responses, so that kinds needn't.
package kit

import (
	"context"
	"reflect"
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
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Kind describes a kind of managed object. M is its model: a struct with a field for every attribute
// of Schema, named as the attribute in Go's spelling. Schema has an id; the kit obeys its
// deletion_protection. A field Private of the model, a struct that JSON can encode, is kept in the private state.
//
// Its functions change the model in place; the result becomes the state. Read reports a missing
// object with an error for which api.IsNotFound is true.
type Kind[M any] struct {
	Name           string // name of the type, without the provider's prefix
	Title          string // in messages: "network volume"
	Schema         schema.Schema
	NewIDs         bool                                                      // an update may give the object a new id
	Single         bool                                                      // an account has exactly one object
	Version        api.Version                                               // the only version that has the kind; "" if both have it
	OneVersionOnly []planrule.OneVersion                                     // attributes of one API version
	Validate       func(ctx context.Context, c diagnostics.Check, config *M) // checks the configuration without the API
	Plan           func(ctx context.Context, p *planrule.Plan[M])
	// ExistingMatches returns the objects that equal the planned object or have its unique name. The plan
	// warns about them.
	ExistingMatches func(ctx context.Context, c *api.Client, plan *M) []api.ExistingMatch
	// Objects lists the ids and names of the kind, for list blocks, data sources and imports by name.
	Objects func(ctx context.Context, c *api.Client) ([]api.NamedObject, error)
	// Volatile are the computed attributes, as dotted paths, that the server may change with any
	// update. They are unknown in a plan that changes anything else.
	Volatile []string
	// Loss describes the data that a deletion destroys, for a warning in the plan. "" means none.
	Loss func(state *M) string
	// Moved fills in, for moved blocks, what the API doesn't return. It reads the other provider's state.
	Moved migrate.Table[M]

	Create func(ctx context.Context, c *api.Client, config, plan *M) error
	Read   func(ctx context.Context, c *api.Client, state *M) error
	Update func(ctx context.Context, c *api.Client, config, state, plan *M) error
	Delete func(ctx context.Context, c *api.Client, state *M) error
}

func (k *Kind[M]) id(m *M) *types.String { return value.Text(m, "id") }

// private returns a pointer to the model's private part. It is nil without one.
func (k *Kind[M]) private(m *M) any {
	if field := reflect.ValueOf(m).Elem().FieldByName("Private"); field.IsValid() {
		return field.Addr().Interface()
	}
	return nil
}

// Run is shared by everything that a run of the provider plans, reads or applies.
type Run struct {
	Provider string // the prefix of its types: "gpucloud"
	API      *api.Client
	Catalog  *catalog.Checks

	reported  diagnostics.Run
	templates sync.Map // planned changes of templates, by id
}

// Client returns the API. If it isn't configured yet, Client reports why and returns nil.
func (r *Run) Client(diags *diag.Diagnostics) *api.Client {
	if r == nil || r.API == nil {
		diags.AddError("The provider's settings are not known yet",
			"A setting of the provider block comes from a resource that has not been applied. "+
				"Apply that resource first (terraform or tofu apply -target), or use a value that is known in the plan.")
		return nil
	}
	return r.API
}

// Managed is a Kind without its type parameter.
type Managed interface {
	Resource() resource.Resource
	ListResource() list.ListResource
	OneVersion() []planrule.OneVersion
}

func (k *Kind[M]) Resource() resource.Resource { return &kindResource[M]{kind: k} }

// OneVersion returns the attributes that only one API version has.
func (k *Kind[M]) OneVersion() []planrule.OneVersion { return k.OneVersionOnly }

func (k *Kind[M]) ListResource() list.ListResource { return &kindResource[M]{kind: k} }
