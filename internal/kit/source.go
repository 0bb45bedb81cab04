package kit

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	data "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// DerivedSources derives two data sources from a kind's schema and its Read: one for a single object,
// by id or exact name, and one for all objects, with filters.
type DerivedSources[M any] struct {
	Kind           *Kind[M]
	SingleID       string                // fixed id of an account's only object; "" for kinds with many objects
	Omit           []string              // attributes that no API returns
	Masked         []string              // maps whose values may be secrets: the state has their digests
	Filters        []string              // attributes to filter by, in addition to name; every version that has them returns them
	Except         string                // ", except …," if the API's list omits objects
	OneVersionOnly []planrule.OneVersion // overrides the kind's own entries where a version returns less
	// Read defaults to the kind's Read.
	Read func(ctx context.Context, c *api.Client, m *M) error
	// Complete adds attributes after Read. It may be nil.
	Complete func(m *M)

	deriveOnce sync.Once
	derived    map[string]schema.Attribute
}

// One returns the data source for a single object.
func (s *DerivedSources[M]) One() datasource.DataSource {
	schema := data.Schema{MarkdownDescription: derivedDescription(s.Kind.Schema.MarkdownDescription), Attributes: map[string]data.Attribute{}}
	for name, a := range s.attributes() {
		schema.Attributes[name] = a
	}
	d := &dataSource{name: s.Kind.Name, title: s.Kind.Title, version: s.Kind.Version}
	find := func(ctx context.Context, c *api.Client, _ tfsdk.Config, _ *diag.Diagnostics) (map[string]tftypes.Value, error) {
		return s.read(ctx, c, s.SingleID)
	}
	if s.SingleID == "" {
		schema.MarkdownDescription += "\n\nSet `id` or a `name` that only one object has."
		schema.Attributes["id"] = data.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{rule.NonEmpty}, MarkdownDescription: "Id of the " + s.Kind.Title + "."}
		schema.Attributes["name"] = data.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{rule.NonEmpty}, MarkdownDescription: "Exact name of the " + s.Kind.Title + "."}
		d.validate, find = s.validateOne, s.find
	}
	d.schema = schema
	d.read = func(ctx context.Context, c *api.Client, config tfsdk.Config, state *tfsdk.State, diags *diag.Diagnostics) error {
		object, err := find(ctx, c, config, diags)
		if err == nil {
			state.Raw = tftypes.NewValue(schema.Type().TerraformType(ctx), object)
		}
		return err
	}
	return d
}

// All returns the data source for all objects of the kind.
func (s *DerivedSources[M]) All() datasource.DataSource {
	filters := append([]string{"name"}, s.Filters...)
	attributes := map[string]data.Attribute{
		s.plural(): schema.ListNestedAttribute{
			Computed: true, MarkdownDescription: "The " + s.titles() + ", ordered by name and id.",
			NestedObject: schema.NestedAttributeObject{Attributes: s.attributes()},
		},
	}
	for _, f := range filters {
		attributes[f] = filterAttribute(f, s.Kind.Schema.Attributes[f])
	}
	schema := data.Schema{MarkdownDescription: "All " + s.titles() + s.Except + " that match all filters exactly." + versionNote(s.Kind.Schema.MarkdownDescription), Attributes: attributes}
	return &dataSource{
		name: s.plural(), title: "list of " + s.titles(), version: s.Kind.Version, schema: schema, oneVersionOnly: s.oneVersion(),
		read: func(ctx context.Context, c *api.Client, config tfsdk.Config, state *tfsdk.State, _ *diag.Diagnostics) error {
			var attributes map[string]tftypes.Value
			if err := config.Raw.As(&attributes); err != nil {
				return err
			}
			objects, err := s.matchingObjects(ctx, c, filters, attributes)
			if err != nil {
				return err
			}
			list := schema.Attributes[s.plural()].GetType().TerraformType(ctx)
			elements := make([]tftypes.Value, len(objects))
			for i, o := range objects {
				elements[i] = tftypes.NewValue(list.(tftypes.List).ElementType, o)
			}
			attributes[s.plural()] = tftypes.NewValue(list, elements)
			state.Raw = tftypes.NewValue(schema.Type().TerraformType(ctx), attributes)
			return nil
		},
	}
}

// filterAttribute makes an attribute of a list's configuration that filters by equality. It rejects
// values that the attribute never has: a misspelled one would match nothing.
func filterAttribute(name string, a schema.Attribute) data.Attribute {
	out := attributeLike(a, "Optional", "Filter by `"+name+"`."+versionNote(a.GetMarkdownDescription()))
	if text, ok := a.(schema.StringAttribute); ok && slices.ContainsFunc(text.Validators, rule.IsOneOf) {
		out.FieldByName("Validators").Set(reflect.ValueOf(text.Validators))
	}
	return out.Interface().(data.Attribute)
}

// plural is the name of the data source for all objects, and of its attribute.
func (s *DerivedSources[M]) plural() string { return s.Kind.Name + "s" }

func (s *DerivedSources[M]) titles() string { return strings.ReplaceAll(s.plural(), "_", " ") }

// attributes derives an object's attributes once: the framework constructs a data source for each call.
func (s *DerivedSources[M]) attributes() map[string]schema.Attribute {
	s.deriveOnce.Do(func() {
		s.derived = derive(s.Kind.Schema.Attributes, s.Omit)
		for _, name := range s.Masked {
			values := s.derived[name].(schema.MapAttribute)
			values.MarkdownDescription = strings.TrimSuffix(values.MarkdownDescription, ".") + "; digests instead of values."
			s.derived[name] = values
		}
	})
	return s.derived
}

func idAndName(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) (id, name types.String) {
	diags.Append(config.GetAttribute(ctx, path.Root("id"), &id)...)
	diags.Append(config.GetAttribute(ctx, path.Root("name"), &name)...)
	return id, name
}

func (s *DerivedSources[M]) validateOne(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	id, name := idAndName(ctx, config, diags)
	c := diagnostics.Check{Diagnostics: diags}
	s.lookup().Validate(c, id, name)
	if id.ValueString() != "" {
		ValidID(c, "id", id, " A name goes into name.")
	}
}

func (s *DerivedSources[M]) lookup() Lookup { return Lookup{s.Kind.Title, s.titles()} }

func (s *DerivedSources[M]) find(ctx context.Context, c *api.Client, config tfsdk.Config, diags *diag.Diagnostics) (object map[string]tftypes.Value, err error) {
	configuredID, name := idAndName(ctx, config, diags)
	id := configuredID.ValueString()
	if id == "" {
		listed, err := s.Kind.Objects(ctx, c)
		if err != nil {
			return nil, err
		}
		if id, err = s.lookup().ByName(listed, name.ValueString()); err != nil {
			return nil, err
		}
	}
	object, err = s.read(ctx, c, id)
	if api.IsNotFound(err) {
		listed, _ := s.Kind.Objects(ctx, c) // if it fails, the error suggests no names
		err = s.lookup().UnknownID(listed, id, err)
	}
	return object, err
}

// matchingObjects returns the objects that match the filters, ordered by name and id.
func (s *DerivedSources[M]) matchingObjects(ctx context.Context, c *api.Client, filters []string, config map[string]tftypes.Value) (objects []map[string]tftypes.Value, err error) {
	listed, err := s.Kind.Objects(ctx, c)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(listed, func(a, b api.NamedObject) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for _, o := range listed {
		object, err := s.read(ctx, c, o.ID)
		switch {
		case api.IsNotFound(err): // deleted after the list was read
		case err != nil:
			return nil, err
		case !slices.ContainsFunc(filters, func(f string) bool { return !config[f].IsNull() && !config[f].Equal(object[f]) }):
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// read reads an object as an import does: only its id is known.
func (s *DerivedSources[M]) read(ctx context.Context, c *api.Client, id string) (object map[string]tftypes.Value, err error) {
	typ := s.Kind.Schema.Type().TerraformType(ctx).(tftypes.Object)
	null := make(map[string]tftypes.Value, len(typ.AttributeTypes))
	for name, member := range typ.AttributeTypes {
		null[name] = tftypes.NewValue(member, nil)
	}
	m, state := new(M), tfsdk.State{Schema: s.Kind.Schema, Raw: tftypes.NewValue(typ, null)}
	diags := value.Load(ctx, state, m)
	*s.Kind.id(m) = types.StringValue(id)
	readObject := s.Kind.Read
	if s.Read != nil {
		readObject = s.Read
	}
	if err := readObject(ctx, c, m); err != nil {
		return nil, err
	}
	if s.Complete != nil {
		s.Complete(m)
	}
	diags.Append(value.Store(ctx, &state, m)...)
	if diags.HasError() {
		return nil, fmt.Errorf("converting the %s: %s", s.Kind.Title, diags.Errors()[0].Detail())
	}
	if err := state.Raw.As(&object); err != nil {
		return nil, err
	}
	for name, a := range s.Kind.Schema.Attributes {
		if a.IsWriteOnly() || slices.Contains(s.Omit, name) {
			delete(object, name)
		}
	}
	// Read sets a default for an attribute that the version doesn't return. A data source has null.
	for _, o := range s.oneVersion() {
		if v, ok := object[o.Attribute]; ok && o.MissingIn(c.Version) {
			object[o.Attribute] = tftypes.NewValue(v.Type(), nil)
		}
	}
	for _, name := range s.Masked {
		if object[name], err = maskSecrets(c, object[name]); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// oneVersion returns the attributes that only one version returns.
func (s *DerivedSources[M]) oneVersion() []planrule.OneVersion {
	out := slices.Clone(s.OneVersionOnly)
	for _, o := range s.Kind.OneVersionOnly {
		if !slices.ContainsFunc(s.OneVersionOnly, func(override planrule.OneVersion) bool { return override.Attribute == o.Attribute }) {
			out = append(out, o)
		}
	}
	return out
}

func maskSecrets(c *api.Client, values tftypes.Value) (tftypes.Value, error) {
	return tftypes.Transform(values, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		key, ok := at.LastStep().(tftypes.ElementKeyString)
		if !ok || v.IsNull() {
			return v, nil
		}
		var text string
		err := v.As(&text)
		return tftypes.NewValue(tftypes.String, c.DigestVariable(string(key), text)), err
	})
}
