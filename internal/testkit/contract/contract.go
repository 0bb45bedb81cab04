// Package contract is the table of what the two management APIs and the job
// API accept and answer. It holds facts only: tests of the client, the
// jobrunner and the provider walk it and compare their own types with it, and
// docs/reference/contract.md is printed from it.
package contract

import "slices"

// API names one of the three documents that make up the contract.
type API string

const (
	V1   API = "v1"   // management API, paths after {base_url}/v1
	V2   API = "v2"   // management API, paths after {base_url}/v2
	Jobs API = "jobs" // job API, paths after {queue_url}/v2/{endpoint_id}
)

// Operation is one method on one path.
type Operation struct {
	API      API
	Method   string
	Path     string // with {name} parameters
	Query    []string
	Resource string // Field.Resource of its bodies, "" where it has none
	Success  []int
	Errors   []int
	Source   string // section of the description, or document and schema
	Note     string // the choice made where sources differ or are silent
}

// Use tells in which bodies a field stands.
type Use uint8

const (
	Create Use = 1 << iota // request body of the create operation
	Update                 // request body of the update operation
	Read                   // response body
)

// Field is one member of a body, named by its path in it ("workers.idleTimeout",
// "cpu[].vcpuCount"). A member whose facts differ between bodies has a row for
// each, with uses that don't overlap.
type Field struct {
	API      API
	Resource string // "template", "networkVolume", "registryAuth", "endpoint", "job", "gpuType", …
	Path     string
	Type     string // string, integer, number, boolean, object, map, array, any
	Items    string // type of the elements of an array or map
	Use      Use
	Required Use      // in which bodies it must stand, if the object around it does
	Default  string   // what a create body without it means, as JSON text; "" where none is stated
	Min, Max *float64 // of a number; of the length for a string or array
	OrZero   bool     // 0 is accepted outside of the bounds and means never set
	Enum     []string // values, of the elements for an array
	Open     bool     // Enum lists what is known; other values are accepted
	Pattern  string   // regular expression, of the elements for an array
	Nullable bool
	Unit     string // GB, s, ms, …
	Source   string
	Note     string
}

// In reports whether the field stands in a body of use u.
func (f Field) In(u Use) bool { return f.Use&u != 0 }

// RequiredIn reports whether a body of use u must have the field.
func (f Field) RequiredIn(u Use) bool { return f.Required&u != 0 }

// Choice is a difference between sources, or a silence of all of them, with
// what this project does about it.
type Choice struct {
	Topic   string
	Sources string
	Chosen  string
}

// FieldsOf returns the fields of a resource in an API that stand in a body of
// use u, in the order of the table.
func FieldsOf(api API, resource string, u Use) []Field {
	return fieldsOf(Fields, api, resource, u)
}

func fieldsOf(fields []Field, api API, resource string, u Use) []Field {
	var out []Field
	for _, f := range fields {
		if f.API == api && f.Resource == resource && f.In(u) {
			out = append(out, f)
		}
	}
	return out
}

// Resources returns the resources that the table has fields for, sorted.
func Resources(api API) []string {
	var out []string
	for _, f := range Fields {
		if f.API == api && !slices.Contains(out, f.Resource) {
			out = append(out, f.Resource)
		}
	}
	slices.Sort(out)
	return out
}
