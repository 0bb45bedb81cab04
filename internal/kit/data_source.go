package kit

import (
	"context"
	"fmt"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// DataSource is a data source that is not derived from a kind. Config is a struct of the
// attributes that a configuration sets. Result is a struct of the attributes that Read
// returns. The tfsdk tags of their fields name the attributes.
type DataSource[Config, Result any] struct {
	Name    string      // name of the type, without the provider's prefix
	Title   string      // in messages: "GPU types"
	Version api.Version // the only version that has it; "" if both have it
	Schema  schema.Schema
	Only    []planrule.OneVersion
	// Validate checks the configuration without the API.
	Validate func(c diagnostics.Check, config *Config)
	Read     func(ctx context.Context, c *api.Client, config *Config) (Result, error)
	// Extra reads attributes that no tag of Config names. It may be nil.
	Extra func(config *Config, get func(attribute string, into any))
}

// New is the framework's constructor.
func (d *DataSource[Config, Result]) New() datasource.DataSource {
	return &dataSource{
		name: d.Name, title: d.Title, version: d.Version, schema: d.Schema, only: d.Only,
		validate: func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
			m := d.readConfig(ctx, config, diags)
			if d.Validate != nil && !diags.HasError() {
				d.Validate(diagnostics.Check{Diagnostics: diags}, m)
			}
		},
		read: func(ctx context.Context, c *api.Client, config tfsdk.Config, state *tfsdk.State, diags *diag.Diagnostics) error {
			m := d.readConfig(ctx, config, diags)
			if diags.HasError() {
				return nil
			}
			got, err := d.Read(ctx, c, m)
			if err != nil {
				return err
			}
			state.Raw = config.Raw
			attributes(&got, func(name string, field reflect.Value) {
				diags.Append(state.SetAttribute(ctx, path.Root(name), field.Interface())...)
			})
			return nil
		},
	}
}

func (d *DataSource[Config, Result]) readConfig(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) *Config {
	m := new(Config)
	get := func(attribute string, into any) {
		diags.Append(config.GetAttribute(ctx, path.Root(attribute), into)...)
	}
	attributes(m, func(name string, field reflect.Value) { get(name, field.Addr().Interface()) })
	if d.Extra != nil {
		d.Extra(m, get)
	}
	return m
}

// attributes calls visit for each field that has a tfsdk tag, including those of embedded
// structs.
func attributes[T any](of *T, visit func(name string, field reflect.Value)) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name := f.Tag.Get("tfsdk"); name != "" && name != "-" {
			visit(name, reflect.ValueOf(of).Elem().FieldByIndex(f.Index))
		}
	}
}

// dataSource implements the framework's interface for every data source.
type dataSource struct {
	name, title string
	version     api.Version
	schema      schema.Schema
	only        []planrule.OneVersion
	validate    func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics)
	read        func(ctx context.Context, c *api.Client, config tfsdk.Config, state *tfsdk.State, diags *diag.Diagnostics) error
	run         *Run
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
	d.validate(ctx, req.Config, &resp.Diagnostics)
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
	for _, o := range d.only {
		o.Check(ctx, diagnostics.Check{Diagnostics: &resp.Diagnostics}, c.Version, req.Config)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.read(ctx, c, req.Config, &resp.State, &resp.Diagnostics); err != nil {
		about := diagnostics.Subject{Title: d.title, TypeName: d.run.Provider + "_" + d.name}
		d.run.reported.Report(&resp.Diagnostics, about, "look up", "", err)
	}
}
