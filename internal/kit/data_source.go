package kit

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// DataSource is a data source that is not derived from a kind. Config is a struct of the
// attributes that a configuration sets. Result is a struct of the attributes that Read
// returns. Their fields are named as the attributes, in Go's spelling.
type DataSource[Config, Result any] struct {
	Name           string      // name of the type, without the provider's prefix
	Title          string      // in messages: "GPU types"
	Version        api.Version // the only version that has it; "" if both have it
	Schema         schema.Schema
	OneVersionOnly []planrule.OneVersion
	// Validate checks the configuration without the API. It may be nil.
	Validate func(c diagnostics.Check, config *Config)
	Read     func(ctx context.Context, c *api.Client, config *Config) (Result, error)
}

// New is the framework's constructor.
func (d *DataSource[Config, Result]) New() datasource.DataSource {
	return &dataSource{
		name: d.Name, title: d.Title, version: d.Version, schema: d.Schema, oneVersionOnly: d.OneVersionOnly,
		validate: func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
			m := new(Config)
			diags.Append(value.Load(ctx, tfsdk.State(config), m)...)
			if d.Validate != nil && !diags.HasError() {
				d.Validate(diagnostics.Check{Diagnostics: diags}, m)
			}
		},
		read: func(ctx context.Context, c *api.Client, config tfsdk.Config, state *tfsdk.State, diags *diag.Diagnostics) error {
			m := new(Config)
			diags.Append(value.Load(ctx, tfsdk.State(config), m)...)
			if diags.HasError() {
				return nil
			}
			got, err := d.Read(ctx, c, m)
			if err != nil {
				return err
			}
			state.Raw = config.Raw
			return value.Merge(ctx, state, got)
		},
	}
}

// dataSource implements the framework's interface for every data source.
type dataSource struct {
	name, title    string
	version        api.Version
	schema         schema.Schema
	oneVersionOnly []planrule.OneVersion
	validate       func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) // may be nil
	read           func(ctx context.Context, c *api.Client, config tfsdk.Config, state *tfsdk.State, diags *diag.Diagnostics) error
	run            *Run
}

func (d *dataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.name
}

func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = d.schema
}

func (d *dataSource) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.run, _ = req.ProviderData.(*Run)
}

func (d *dataSource) ValidateConfig(ctx context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse) {
	if d.validate != nil {
		d.validate(ctx, req.Config, &resp.Diagnostics)
	}
}

// Read runs during the plan, or during the apply if the configuration isn't known earlier.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	c := d.run.Client(&resp.Diagnostics)
	if c == nil {
		return
	}
	if d.version != "" && c.Version != d.version {
		resp.Diagnostics.AddError(fmt.Sprintf("API %s can't express this", c.Version),
			fmt.Sprintf("The data source %s_%s exists in management API %s only. Remove it, or set api_version = %q in the provider block.",
				d.run.Provider, d.name, d.version, string(d.version)))
		return
	}
	for _, o := range d.oneVersionOnly {
		o.Check(ctx, diagnostics.Check{Diagnostics: &resp.Diagnostics}, c.Version, req.Config)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.read(ctx, c, req.Config, &resp.State, &resp.Diagnostics); err != nil {
		subject := diagnostics.Subject{Title: d.title, TypeName: d.run.Provider + "_" + d.name}
		d.run.reported.Report(&resp.Diagnostics, subject, "look up", "", err)
	}
}

// Lookup finds an object by id or exact name for a data source. Its errors list what exists.
type Lookup struct{ Title, Plural string } // in messages: "network volume", "network volumes"

// Validate checks that a configuration has either an id or a name.
func (l Lookup) Validate(c diagnostics.Check, id, name types.String) {
	switch {
	case id.IsNull() && name.IsNull():
		c.Error("id", "Missing id or name", "Set id or name to select the %s.", l.Title)
	case value.IsSet(id) && value.IsSet(name):
		c.Error("name", "Both id and name", "Set either id or name to select the %s, not both.", l.Title)
	}
}

// ValidID rejects an invalid id. advice is appended to the error.
func ValidID(c diagnostics.Check, attribute string, id types.String, advice ...string) {
	if value.IsSet(id) && !api.ValidID(id.ValueString()) {
		c.Error(attribute, "Invalid value of "+attribute, "Invalid %s: expected %s, got %q.%s", attribute, rule.ID.Expects, id.ValueString(), strings.Join(advice, ""))
	}
}

// ByName returns the id of the only object with the name.
func (l Lookup) ByName(listed []api.NamedObject, name string) (id string, err error) {
	matches := api.WithName(listed, name)
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		err = fmt.Errorf("no %s is named %q; %s", l.Title, name, l.nearNames(listed, name))
	default:
		err = fmt.Errorf("%d %s are named %q: instead of name, set id to one of %s", len(matches), l.Plural, name, strings.Join(matches, ", "))
	}
	return "", &diagnostics.AttributeError{Attribute: "name", Err: err}
}

// nearNames lists existing objects with similar names.
func (l Lookup) nearNames(listed []api.NamedObject, name string) string {
	if len(listed) == 0 {
		return fmt.Sprintf("there are no %s", l.Plural)
	}
	var names []string
	for _, o := range listed {
		if o.ID == name {
			return fmt.Sprintf("it is the id of one, named %q: set id instead of name", o.Name)
		}
		names = append(names, o.Name)
	}
	verb, found := "are similar", near.Matches(name, names)
	if len(found) == 0 {
		verb, found = "exist", near.First(names)
	}
	var known []string
	for _, n := range found {
		for _, o := range listed {
			if o.Name == n {
				known = append(known, fmt.Sprintf("%q (%s)", n, o.ID))
			}
		}
	}
	if more := len(listed) - len(known); verb == "exist" && more > 0 {
		known = append(known, fmt.Sprintf("and %d more", more))
	}
	return "these " + verb + ": " + strings.Join(known, ", ")
}

// UnknownID returns the error for an id that doesn't exist. notFound is the API's error.
func (l Lookup) UnknownID(listed []api.NamedObject, id string, notFound error) error {
	hint := ""
	var ids []string
	for _, o := range listed {
		if o.Name == id {
			hint = fmt.Sprintf(", but %s has this name: set name instead of id", o.ID)
		}
		ids = append(ids, o.ID)
	}
	if found := near.Matches(id, ids); hint == "" && len(found) > 0 {
		hint = "; similar: " + strings.Join(found, ", ")
	}
	return &diagnostics.AttributeError{Attribute: "id", Err: fmt.Errorf("there is no %s with the id %s%s: %w", l.Title, id, hint, notFound)}
}
