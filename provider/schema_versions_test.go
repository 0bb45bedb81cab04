package provider_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

var updateSchemas = flag.Bool("schemas.update", false, "record new attributes of the schemas of resources")

// recordedSchema has the types of a schema version's attributes and identity, in the JSON form of Terraform's types.
type recordedSchema struct {
	Attributes      any   `json:"attributes"`
	IdentityVersion int64 `json:"identity_version"`
	Identity        any   `json:"identity"`
}

// A schema changes compatibly or raises its version. States of every version in testdata/schemas can be read.
func TestSchemaVersions(t *testing.T) {
	server := provider.Server("test")
	schemas := must.Do(server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{}))(t)
	identities := must.Do(server.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{}))(t)
	expected := map[string]bool{}
	for name, schema := range schemas.ResourceSchemas {
		for version := range schema.Version + 1 {
			expected[schemaFile(name, version)] = true
		}
		t.Run(name, func(t *testing.T) {
			identity := identities.IdentitySchemas[name]
			must.Require(t, identity != nil, "it has no identity")
			current := recordedSchema{wireType(t, schema.ValueType()), identity.Version, wireType(t, identity.ValueType())}
			checkRecord(t, name, schema.Version, current)
			for version := range schema.Version + 1 {
				if recorded, ok := readRecord(t, name, version); ok {
					checkUpgrades(t, server, name, version, recorded, schema, identity)
				}
			}
		})
	}
	for _, file := range must.Do(filepath.Glob("testdata/schemas/*.json"))(t) {
		must.Hold(t, expected[file], file, "has no resource type, or a later version than its schema: nothing could read the states of a removed type or version")
	}
}

// checkRecord compares a schema with the record of its version, or with -schemas.update writes the record.
func checkRecord(t *testing.T, name string, version int64, current recordedSchema) {
	t.Helper()
	recorded, ok := readRecord(t, name, version)
	broken, added := schemaChanges("", recorded.Attributes, current.Attributes)
	if ok && recorded.IdentityVersion != current.IdentityVersion {
		broken = append(broken, fmt.Sprintf("the identity had version %d and has %d: raise the schema's version, too, so that the old record stays", recorded.IdentityVersion, current.IdentityVersion))
	} else if ok {
		brokenIdentity, addedIdentity := schemaChanges("identity", recorded.Identity, current.Identity)
		broken, added = append(broken, brokenIdentity...), append(added, addedIdentity...)
	}
	switch {
	case !ok && !*updateSchemas:
		t.Errorf("version %d of the schema is not recorded: run go test ./provider -run TestSchemaVersions -schemas.update", version)
	case ok && len(broken) > 0:
		t.Errorf("states of version %d have attributes that this schema lacks. Raise its Version (for an identity, the identity's) and write an upgrader:\n%s", version, strings.Join(broken, "\n"))
	case *updateSchemas:
		text := must.Do(json.MarshalIndent(current, "", "  "))(t)
		must.Succeed(t, errors.Join(os.MkdirAll("testdata/schemas", 0o755), os.WriteFile(schemaFile(name, version), append(text, '\n'), 0o644))) //nolint:gosec // a file of the repository
	case len(added) > 0:
		t.Errorf("attributes are not recorded: run go test ./provider -run TestSchemaVersions -schemas.update\n%s", strings.Join(added, "\n"))
	}
}

// checkUpgrades reads a version's states: complete, with another release's attribute, with empty objects.
func checkUpgrades(t *testing.T, server tfprotov6.ProviderServer, name string, version int64, recorded recordedSchema, schema *tfprotov6.Schema, identity *tfprotov6.ResourceIdentitySchema) {
	t.Helper()
	for form, change := range map[string]func(object map[string]any){
		"complete":                             func(map[string]any) {},
		"with an attribute of another release": func(object map[string]any) { object["of_another_release"] = "text" },
		"with empty objects":                   func(object map[string]any) { clear(object) },
	} {
		state := sampleOf(recorded.Attributes, change).(map[string]any)
		state["id"] = "the-id"
		resp := must.Do(server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{TypeName: name, Version: version, RawState: rawState(t, state)}))(t)
		for _, d := range resp.Diagnostics {
			t.Errorf("a state of version %d, %s, is not read: %s: %s", version, form, d.Summary, d.Detail)
		}
		if resp.UpgradedState == nil {
			continue
		}
		upgraded := must.Do(resp.UpgradedState.Unmarshal(schema.ValueType()))(t)
		if form == "with empty objects" || version < schema.Version {
			continue
		}
		must.Equal(t, nulls(t, upgraded, writeOnly(schema.Block.Attributes)), nil, "a state of version", version, form, "loses")
	}
	if recorded.IdentityVersion == identity.Version { // Terraform asks for no upgrade
		return
	}
	resp := must.Do(server.UpgradeResourceIdentity(t.Context(), &tfprotov6.UpgradeResourceIdentityRequest{
		TypeName: name, Version: recorded.IdentityVersion, RawIdentity: rawState(t, sampleOf(recorded.Identity, func(map[string]any) {})),
	}))(t)
	for _, d := range resp.Diagnostics {
		t.Errorf("an identity of version %d is not read: %s: %s", recorded.IdentityVersion, d.Summary, d.Detail)
	}
	if resp.UpgradedIdentity != nil && resp.UpgradedIdentity.IdentityData != nil {
		must.Do(resp.UpgradedIdentity.IdentityData.Unmarshal(identity.ValueType()))(t)
	}
}

// A fraction that somebody wrote into the state is reported at its attribute.
func TestFractionInState(t *testing.T) {
	server := provider.Server("test")
	resp := must.Do(server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{TypeName: "gpucloud_network_volume", RawState: rawState(t, map[string]any{"id": "v", "size": 10.5})}))(t)
	want := "size: Invalid value of size: Invalid size in the state: expected a whole number, got 10.5."
	must.Equal(t, tfdrive.Diagnostics(resp.Diagnostics).String(), want)
}

// schemaChanges returns the incompatible changes between two types, and the new attributes.
func schemaChanges(path string, recorded, current any) (broken, added []string) {
	old, now := objectMembers(recorded), objectMembers(current)
	switch {
	case old != nil && now != nil:
		for _, name := range slices.Sorted(maps.Keys(old)) {
			member := strings.TrimPrefix(path+"."+name, ".")
			if _, ok := now[name]; !ok {
				broken = append(broken, member+" is removed")
				continue
			}
			brokenMembers, addedMembers := schemaChanges(member, old[name], now[name])
			broken, added = append(broken, brokenMembers...), append(added, addedMembers...)
		}
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if _, ok := old[name]; !ok {
				added = append(added, strings.TrimPrefix(path+"."+name, "."))
			}
		}
	case elementOf(recorded) != nil && elementOf(current) != nil && recorded.([]any)[0] == current.([]any)[0]:
		return schemaChanges(path+"[]", elementOf(recorded), elementOf(current))
	case !reflect.DeepEqual(recorded, current):
		broken = append(broken, fmt.Sprintf("%s was %v and is %v", path, recorded, current))
	}
	return broken, added
}

func TestSchemaChanges(t *testing.T) {
	parse := func(text string) (parsed any) {
		must.Succeed(t, json.Unmarshal([]byte(text), &parsed))
		return parsed
	}
	recorded := parse(`["object", {"a": "string", "l": ["list", ["object", {"x": "number"}]], "m": ["map", "string"]}]`)
	for _, c := range []struct{ current, broken, added string }{
		{`["object", {"a": "string", "l": ["list", ["object", {"x": "number"}]], "m": ["map", "string"]}]`, "[]", "[]"},
		{`["object", {"a": "string", "l": ["list", ["object", {"x": "number", "y": "bool"}]], "m": ["map", "string"], "n": "bool"}]`, "[]", "[l[].y n]"},
		{`["object", {"l": ["list", ["object", {"x": "number"}]], "m": ["map", "string"]}]`, "[a is removed]", "[]"},
		{`["object", {"a": "number", "l": ["list", ["object", {}]], "m": ["map", "string"]}]`, "[a was string and is number l[].x is removed]", "[]"},
		{`["object", {"a": "string", "l": ["set", ["object", {"x": "number"}]], "m": ["map", "number"]}]`, "[l was [list [object map[x:number]]] and is [set [object map[x:number]]] m[] was string and is number]", "[]"},
	} {
		broken, added := schemaChanges("", recorded, parse(c.current))
		must.Hold(t, fmt.Sprint(broken) == c.broken && fmt.Sprint(added) == c.added,
			c.current, "broken", broken, "added", added, "expected", c.broken, c.added)
	}
}

func schemaFile(name string, version int64) string {
	return filepath.Join("testdata", "schemas", fmt.Sprintf("%s.v%d.json", name, version))
}

func readRecord(t *testing.T, name string, version int64) (recorded recordedSchema, ok bool) {
	t.Helper()
	text, err := os.ReadFile(schemaFile(name, version))
	if errors.Is(err, fs.ErrNotExist) {
		return recorded, false
	}
	must.Succeed(t, errors.Join(err, json.Unmarshal(text, &recorded)))
	return recorded, true
}

// wireType decodes the JSON form of a type.
func wireType(t *testing.T, typ tftypes.Type) (decoded any) {
	t.Helper()
	must.Succeed(t, json.Unmarshal(must.Do(json.Marshal(typ))(t), &decoded))
	return decoded
}

func objectMembers(typ any) map[string]any {
	if parts, ok := typ.([]any); ok && parts[0] == "object" {
		return parts[1].(map[string]any)
	}
	return nil
}

func elementOf(typ any) any {
	if parts, ok := typ.([]any); ok && parts[0] != "object" {
		return parts[1]
	}
	return nil
}

// sampleOf returns a value of a type, after change has edited each object.
func sampleOf(typ any, change func(object map[string]any)) any {
	members := objectMembers(typ)
	switch {
	case members != nil:
		object := map[string]any{}
		for name, member := range members {
			object[name] = sampleOf(member, change)
		}
		change(object)
		return object
	case elementOf(typ) != nil && typ.([]any)[0] == "map":
		return map[string]any{"KEY": sampleOf(elementOf(typ), change)}
	case elementOf(typ) != nil:
		return []any{sampleOf(elementOf(typ), change)}
	}
	return map[any]any{"string": "text", "number": 1, "bool": true}[typ]
}

func rawState(t *testing.T, state any) *tfprotov6.RawState {
	t.Helper()
	return &tfprotov6.RawState{JSON: must.Do(json.Marshal(state))(t)}
}

// writeOnly returns the names of the write-only attributes.
func writeOnly(attributes []*tfprotov6.SchemaAttribute) (names []string) {
	for _, a := range attributes {
		if a.WriteOnly {
			names = append(names, a.Name)
		}
	}
	return names
}

// nulls returns the paths of the null attributes, except ignored ones.
func nulls(t *testing.T, state tftypes.Value, ignored []string) (paths []string) {
	t.Helper()
	err := tftypes.Walk(state, func(path *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		if name, ok := path.LastStep().(tftypes.AttributeName); v.IsNull() && (!ok || !slices.Contains(ignored, string(name))) {
			paths = append(paths, path.String())
		}
		return true, nil
	})
	must.Succeed(t, err)
	return paths
}
