package contract

import (
	"cmp"
	"slices"
	"strings"
)

// Fields is the table of members, resource by resource.
var Fields = slices.Concat(
	templateV1, networkVolumeV1, registryAuthV1, endpointV1, podV1, billingV1, networkVolumeBillingV1, errorV1,
	templateV2, networkVolumeV2, registryAuthV2, delegationV2, endpointV2, podV2, podActionV2, clusterV2, sshKeysV2, secretV2, globalVolumeV2, buildV2, gpuTypeV2, cpuTypeV2, dataCenterV2,
	billingV2, podBillingV2, serverlessBillingV2, endpointBillingV2, networkVolumeBillingV2, clusterBillingV2, errorV2,
	jobSubmission, job, streamChunk, liveStream, health, purge, jobList, batch, batchList, batchResults, errorJobs,
)

// The functions below make a row of the table readable as one line:
//
//	f("size", "integer", writeOnly, required(Create), between(10, 4096), unit("GB")),

const (
	writeOnly = Create | Update
	readWrite = Create | Update | Read
)

type fact func(*Field)

// rows sets the fields' API and resource, and their source unless they have one.
func rows(api API, resource, source string, fields ...Field) []Field {
	for i := range fields {
		fields[i].API, fields[i].Resource = api, resource
		fields[i].Source = cmp.Or(fields[i].Source, source)
	}
	return fields
}

// f returns a field. A type "[]T" is an array of T, "{}T" a map from strings to T.
func f(path, typ string, use Use, facts ...fact) Field {
	row := Field{Path: path, Type: typ, Use: use}
	if items, ok := strings.CutPrefix(typ, "[]"); ok {
		row.Type, row.Items = "array", items
	}
	if items, ok := strings.CutPrefix(typ, "{}"); ok {
		row.Type, row.Items = "map", items
	}
	for _, set := range facts {
		set(&row)
	}
	return row
}

func required(in Use) fact              { return func(f *Field) { f.Required = in } }
func defaultTo(json string) fact        { return func(f *Field) { f.Default = json } }
func atLeast(low float64) fact          { return func(f *Field) { f.Min = &low } }
func atMost(high float64) fact          { return func(f *Field) { f.Max = &high } }
func between(low, high float64) fact    { return func(f *Field) { f.Min, f.Max = &low, &high } }
func oneOf(values ...string) fact       { return func(f *Field) { f.Enum = values } }
func openEnum(values []string) fact     { return func(f *Field) { f.Enum, f.Open = values, true } }
func form(form Form) fact               { return func(f *Field) { f.Form = &form } }
func not(form Form) fact                { return func(f *Field) { f.Not = &form } }
func requiredUnless(name string) fact   { return func(f *Field) { f.RequiredUnless = name } }
func requiresInUpdate(name string) fact { return func(f *Field) { f.RequiresInUpdate = name } }
func requiredForType(typ string) fact   { return func(f *Field) { f.RequiredForType = typ } }
func clearedBy(json string) fact        { return func(f *Field) { f.Clear = json } }
func v2Name(paths ...string) fact       { return func(f *Field) { f.V2Paths = paths } }
func unit(name string) fact             { return func(f *Field) { f.Unit = name } }
func from(source string) fact           { return func(f *Field) { f.Source = source } }
func note(text string) fact             { return func(f *Field) { f.Note = text } }

func orZero(f *Field)     { f.OrZero = true }
func nullable(f *Field)   { f.Nullable = true }
func unique(f *Field)     { f.Unique = true }
func powerOfTwo(f *Field) { f.PowerOfTwo = true }
func secret(f *Field)     { f.Secret = true }

var errorV1 = rows(V1, "error", "service description: Errors",
	f("message", "string", Read, required(Read)),
	f("error", "string", Read, from("field notes: Management v1"), note("some live deployments return it instead of message; clients read it, the jobrunner doesn't return it")),
	f("status", "integer", Read, from("field notes: Management v1"), note("deployments that return error return it too")),
)

var errorV2 = rows(V2, "error", "service description: Versioning 9",
	f("title", "string", Read, required(Read)),
	f("status", "integer", Read, required(Read), note("the HTTP status")),
	f("detail", "string", Read, required(Read)),
	f("errors", "[]string", Read, note(`one per fault of the body, such as "$: missing property 'name'"`)),
)

var errorJobs = rows(Jobs, "error", "field notes: Job API",
	f("error", "string", Read, required(Read), note("the service description shows no body")),
)
