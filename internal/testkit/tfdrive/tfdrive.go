// Package tfdrive drives a provider over the plugin protocol without Terraform. Hundreds of
// plans take as long as one through the CLI. It performs the steps of Terraform's core around
// one resource: validate, propose, plan, apply, read, import.
package tfdrive

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-log/tflogtest"
	"github.com/hashicorp/terraform-plugin-log/tfsdklogtest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/pluginserver"
)

// Provider is a configured provider, served in this process.
type Provider struct {
	t      *testing.T
	ctx    context.Context // outlives the test's own, for clean-ups
	server tfprotov6.ProviderServer
	*schemas
	block                *tfprotov6.DynamicValue // the provider block
	ConfigureDiagnostics Diagnostics
}

// schemas are the schemas of a provider type. All its servers share them.
type schemas struct {
	schema     *tfprotov6.GetProviderSchemaResponse
	types, ids map[string]tftypes.Type // types of the states and of the identities, by resource type
}

var schemaCache sync.Map // by the provider's Go type

// Unknown stands for a value that is known after apply.
var Unknown = unknown{}

type unknown struct{}

// Start serves the provider and configures it with a provider block. It skips the test
// if the tests are repeated with another CLI (tfcli.SkipRepeated), because the test involves no CLI.
func Start(t *testing.T, p provider.Provider, block map[string]any) *Provider {
	t.Helper()
	tfcli.SkipRepeated(t)
	d := &Provider{t: t, ctx: context.WithoutCancel(t.Context()), server: pluginserver.New(p)}
	d.schemas = d.schemasOf(p)
	config := d.value(d.schema.Provider.ValueType(), block)
	valid := ask(d, d.server.ValidateProviderConfig, &tfprotov6.ValidateProviderConfigRequest{Config: d.pack(config)})
	d.block = d.pack(config)
	d.Reconfigure()
	d.ConfigureDiagnostics = append(valid.Diagnostics, d.ConfigureDiagnostics...)
	return d
}

func (d *Provider) schemasOf(p provider.Provider) *schemas {
	d.t.Helper()
	if s, ok := schemaCache.Load(reflect.TypeOf(p)); ok {
		return s.(*schemas)
	}
	schema := ask(d, d.server.GetProviderSchema, &tfprotov6.GetProviderSchemaRequest{})
	if diags := Diagnostics(schema.Diagnostics); diags.Err() != nil {
		d.t.Fatalf("the provider's schema does not load: %s", diags)
	}
	identities := ask(d, d.server.GetResourceIdentitySchemas, &tfprotov6.GetResourceIdentitySchemasRequest{})
	s := &schemas{schema: schema, types: map[string]tftypes.Type{}, ids: map[string]tftypes.Type{}}
	for name, resource := range schema.ResourceSchemas {
		s.types[name] = resource.ValueType()
	}
	for name, identity := range identities.IdentitySchemas {
		s.ids[name] = identity.ValueType()
	}
	schemaCache.Store(reflect.TypeOf(p), s)
	return s
}

// Reconfigure configures the provider again, as Terraform does before a plan and before an apply.
func (d *Provider) Reconfigure() *Provider {
	d.t.Helper()
	configured := ask(d, d.server.ConfigureProvider, &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.11.4", Config: d.block})
	d.ConfigureDiagnostics = configured.Diagnostics
	return d
}

// Stop interrupts the provider, as Terraform does when it is interrupted.
func (d *Provider) Stop() {
	_, _ = d.server.StopProvider(d.ctx, &tfprotov6.StopProviderRequest{}) // it never fails
}

// LogTo writes the log of the provider and its framework from now on, one JSON object per line.
func (d *Provider) LogTo(w io.Writer) *Provider {
	d.ctx = tflogtest.RootLogger(tfsdklogtest.RootLogger(d.ctx, w), w)
	return d
}

func (d *Provider) Types() []string { return slices.Sorted(maps.Keys(d.schema.ResourceSchemas)) }

func (d *Provider) Schema(typeName string) *tfprotov6.Schema {
	return d.schema.ResourceSchemas[typeName]
}

func (d *Provider) DataSchemas() map[string]*tfprotov6.Schema { return d.schema.DataSourceSchemas }

// Data validates the configuration of a data source and reads it, as Terraform does during a
// plan. If the configuration isn't fully known, it reads nothing.
func (d *Provider) Data(typeName string, config map[string]any) (State, Diagnostics) {
	d.t.Helper()
	schema := d.schema.DataSourceSchemas[typeName]
	if schema == nil {
		d.t.Fatalf("the provider has no data source type %s", typeName)
	}
	value := d.value(schema.ValueType(), config)
	valid := ask(d, d.server.ValidateDataResourceConfig, &tfprotov6.ValidateDataResourceConfigRequest{TypeName: typeName, Config: d.pack(value)})
	out, diags := State{Type: typeName}, Diagnostics(valid.Diagnostics)
	if diags.Err() != nil || !value.IsFullyKnown() {
		return out, diags
	}
	resp := ask(d, d.server.ReadDataSource, &tfprotov6.ReadDataSourceRequest{TypeName: typeName, Config: d.pack(value)})
	diags = append(diags, resp.Diagnostics...)
	if diags.Err() == nil {
		out.Value = d.unpack(resp.State, schema.ValueType())
		if !out.Value.IsFullyKnown() {
			d.t.Errorf("%s: unknown values in the state: %s", typeName, out.Value)
		}
	}
	return out, diags
}

// State is an object's state. Value is the zero Value before the object exists.
type State struct {
	Type     string
	Value    tftypes.Value
	private  []byte
	identity *tfprotov6.ResourceIdentityData
}

func (s State) Exists() bool { return s.Value.Type() != nil && !s.Value.IsNull() }

// Get returns an attribute by its dotted path: nil, Unknown, string, bool, float64, []any or map[string]any.
func (s State) Get(path string) any {
	if !s.Exists() {
		return nil
	}
	value := plain(s.Value)
	for name := range strings.SplitSeq(path, ".") {
		members, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = members[name]
	}
	return value
}

// All returns the whole state as Go data.
func (s State) All() any { return plain(s.Value) }

// Identity returns an attribute of the identity, or nil without an identity.
func (d *Provider) Identity(s State, attribute string) any {
	d.t.Helper()
	if s.identity == nil || s.identity.IdentityData == nil {
		return nil
	}
	members, _ := plain(d.unpack(s.identity.IdentityData, d.ids[s.Type])).(map[string]any)
	return members[attribute]
}

// Contains reports whether a text occurs in the state, including its private part.
func (s State) Contains(text string) bool {
	var private map[string][]byte // the framework encodes each value in base64
	if err := json.Unmarshal(s.private, &private); err != nil && len(s.private) > 0 {
		return true // can't rule it out
	}
	for _, part := range private {
		if bytes.Contains(part, []byte(text)) {
			return true
		}
	}
	return s.Value.Type() != nil && strings.Contains(s.Value.String(), text)
}

// PlannedChange is the result of a plan. Its State is the planned one.
type PlannedChange struct {
	State
	Action      string   // create, update, replace, no-op
	Replace     []string // attributes whose change requires a replacement
	Diagnostics Diagnostics
	config      tftypes.Value
	prior       State
}

// Plan validates and plans a configuration over a prior state. Like Terraform, it plans a replacement twice.
func (d *Provider) Plan(typeName string, prior State, config map[string]any) PlannedChange {
	d.t.Helper()
	return d.planChange(typeName, prior, config, false)
}

// PlanReplace plans a replacement that the CLI forces, as with -replace.
func (d *Provider) PlanReplace(typeName string, prior State, config map[string]any) PlannedChange {
	d.t.Helper()
	return d.planChange(typeName, prior, config, true)
}

func (d *Provider) planChange(typeName string, prior State, config map[string]any, replace bool) PlannedChange {
	d.t.Helper()
	schema := d.Schema(typeName)
	if schema == nil {
		d.t.Fatalf("the provider has no resource type %s", typeName)
	}
	ty := d.types[typeName]
	p := PlannedChange{config: d.value(ty, config), prior: prior}
	valid := ask(d, d.server.ValidateResourceConfig, &tfprotov6.ValidateResourceConfigRequest{
		TypeName: typeName, Config: d.pack(p.config),
		ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
	})
	p.Diagnostics = valid.Diagnostics
	if p.Diagnostics.Err() != nil {
		return p
	}
	before := tftypes.NewValue(ty, nil)
	if prior.Exists() {
		before = prior.Value
	}
	p.plan(d, typeName, schema, before, prior.private)
	switch {
	case p.Diagnostics.Err() != nil:
	case !prior.Exists():
		p.Action = "create"
	case len(p.Replace) > 0 || replace:
		p.plan(d, typeName, schema, tftypes.NewValue(ty, nil), p.private)
		p.Action = "replace"
	case p.Value.Equal(prior.Value):
		p.Action = "no-op"
	default:
		p.Action = "update"
	}
	return p
}

func (p *PlannedChange) plan(d *Provider, typeName string, schema *tfprotov6.Schema, before tftypes.Value, private []byte) {
	proposed := propose(schema.Block.Attributes, before, p.config)
	resp := ask(d, d.server.PlanResourceChange, &tfprotov6.PlanResourceChangeRequest{
		TypeName: typeName, PriorState: d.pack(before), ProposedNewState: d.pack(proposed), Config: d.pack(p.config), PriorPrivate: private,
		PriorIdentity: p.prior.identity,
	})
	p.Diagnostics = append(p.Diagnostics, resp.Diagnostics...)
	p.State = State{Type: typeName, Value: d.unpack(resp.PlannedState, d.types[typeName]), private: resp.PlannedPrivate, identity: resp.PlannedIdentity}
	// Terraform can't show a saved plan whose identity has unknown values, and OpenTofu can't save the plan.
	if id := resp.PlannedIdentity; id != nil && id.IdentityData != nil && !d.unpack(id.IdentityData, d.ids[typeName]).IsFullyKnown() {
		d.t.Errorf("%s: the planned identity is not known", typeName)
	}
	for _, path := range resp.RequiresReplace {
		p.Replace = append(p.Replace, dottedPath(path))
	}
}

// Resolve plans a change again with the values that the configuration has at the apply, as
// Terraform does before it applies a change.
func (d *Provider) Resolve(p PlannedChange, config map[string]any) PlannedChange {
	d.t.Helper()
	final := d.Plan(p.Type, p.prior, config)
	if diff := inconsistent("", plain(p.Value), plain(final.Value)); diff != "" {
		d.t.Errorf("%s: inconsistent final plan: %s", p.Type, diff)
	}
	return final
}

// Apply applies a planned change. Like Terraform, it rejects a change of known planned values.
func (d *Provider) Apply(p PlannedChange) (State, Diagnostics) {
	d.t.Helper()
	ty := d.types[p.Type]
	before := tftypes.NewValue(ty, nil)
	if p.Action == "update" {
		before = p.prior.Value
	}
	if p.Action == "replace" {
		if diags := d.Destroy(p.prior); diags.Err() != nil {
			return p.prior, diags
		}
	}
	resp := ask(d, d.server.ApplyResourceChange, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: p.Type, PriorState: d.pack(before), PlannedState: d.pack(p.Value), Config: d.pack(p.config), PlannedPrivate: p.private,
		PlannedIdentity: p.identity,
	})
	state := State{Type: p.Type, Value: d.unpack(resp.NewState, ty), private: resp.Private, identity: resp.NewIdentity}
	diags := Diagnostics(resp.Diagnostics)
	if diags.Err() == nil {
		diff := inconsistent("", plain(p.Value), plain(state.Value))
		if diff != "" || !state.Value.IsFullyKnown() {
			d.t.Errorf("%s: inconsistent result after apply: %s, %s", p.Type, diff, state.Value)
		}
	}
	return state, diags
}

// Read refreshes a state. If the object is gone, so is the state.
func (d *Provider) Read(s State) (State, Diagnostics) {
	d.t.Helper()
	resp := ask(d, d.server.ReadResource, &tfprotov6.ReadResourceRequest{TypeName: s.Type, CurrentState: d.pack(s.Value), Private: s.private, CurrentIdentity: s.identity})
	return State{Type: s.Type, Value: d.unpack(resp.NewState, d.types[s.Type]), private: resp.Private, identity: resp.NewIdentity}, resp.Diagnostics
}

// Destroy plans and applies the deletion of an object.
func (d *Provider) Destroy(s State) Diagnostics {
	d.t.Helper()
	ty := d.types[s.Type]
	null := d.pack(tftypes.NewValue(ty, nil))
	planned := ask(d, d.server.PlanResourceChange, &tfprotov6.PlanResourceChangeRequest{
		TypeName: s.Type, PriorState: d.pack(s.Value), ProposedNewState: null, Config: null, PriorPrivate: s.private,
	})
	if diags := Diagnostics(planned.Diagnostics); diags.Err() != nil {
		return diags
	}
	resp := ask(d, d.server.ApplyResourceChange, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: s.Type, PriorState: d.pack(s.Value), PlannedState: null, Config: null, PlannedPrivate: planned.PlannedPrivate,
	})
	return append(planned.Diagnostics, resp.Diagnostics...)
}

// Import imports an object by its id or name, and reads it.
func (d *Provider) Import(typeName, id string) (State, Diagnostics) {
	d.t.Helper()
	return d.importState(&tfprotov6.ImportResourceStateRequest{TypeName: typeName, ID: id})
}

// ImportIdentity imports an object by its identity, and reads it.
func (d *Provider) ImportIdentity(typeName string, identity map[string]any) (State, Diagnostics) {
	d.t.Helper()
	packed := d.pack(d.value(d.ids[typeName], identity))
	return d.importState(&tfprotov6.ImportResourceStateRequest{TypeName: typeName, Identity: &tfprotov6.ResourceIdentityData{IdentityData: packed}})
}

func (d *Provider) importState(req *tfprotov6.ImportResourceStateRequest) (State, Diagnostics) {
	d.t.Helper()
	resp := ask(d, d.server.ImportResourceState, req)
	if diags := Diagnostics(resp.Diagnostics); diags.Err() != nil || len(resp.ImportedResources) == 0 {
		return State{Type: req.TypeName}, diags
	}
	got := resp.ImportedResources[0]
	return d.Read(State{Type: req.TypeName, Value: d.unpack(got.State, d.types[req.TypeName]), private: got.Private, identity: got.Identity})
}

// Move moves another provider's state, in the form of a state file, as a moved block does.
func (d *Provider) Move(typeName, sourceProvider, sourceType string, state []byte) (State, Diagnostics) {
	d.t.Helper()
	resp := ask(d, d.server.MoveResourceState, &tfprotov6.MoveResourceStateRequest{
		TargetTypeName: typeName, SourceProviderAddress: sourceProvider, SourceTypeName: sourceType, SourceState: &tfprotov6.RawState{JSON: state},
	})
	if diags := Diagnostics(resp.Diagnostics); diags.Err() != nil || resp.TargetState == nil {
		return State{Type: typeName}, diags
	}
	return State{Type: typeName, Value: d.unpack(resp.TargetState, d.types[typeName]), private: resp.TargetPrivate, identity: resp.TargetIdentity}, resp.Diagnostics
}

// ListResult is an object that a list block found.
type ListResult struct {
	State
	Name string // for display
}

// List returns the objects of a type with their attributes, at most limit unless it is 0.
func (d *Provider) List(typeName string, config map[string]any, limit int64) (found []ListResult, diags Diagnostics) {
	d.t.Helper()
	schema, ok := d.schema.ListResourceSchemas[typeName]
	if !ok {
		d.t.Fatalf("the provider has no list resource of type %s", typeName)
	}
	server, ok := d.server.(tfprotov6.ListResourceServer)
	if !ok {
		d.t.Fatal("the provider serves no lists")
	}
	stream := ask(d, server.ListResource, &tfprotov6.ListResourceRequest{
		TypeName: typeName, Config: d.pack(d.value(schema.ValueType(), config)), IncludeResource: true, Limit: limit,
	})
	for result := range stream.Results {
		diags = append(diags, result.Diagnostics...)
		if Diagnostics(result.Diagnostics).Err() != nil {
			continue
		}
		found = append(found, ListResult{State{Type: typeName, Value: d.unpack(result.Resource, d.types[typeName]), identity: result.Identity}, result.DisplayName})
	}
	return found, diags
}

// ask calls a method of the provider's server.
func ask[Q, R any](d *Provider, method func(context.Context, *Q) (*R, error), request *Q) *R {
	d.t.Helper()
	response, err := method(d.ctx, request)
	d.must(err)
	return response
}

func (d *Provider) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("the provider broke the plugin protocol: %s", err)
	}
}
