// Package variants lists deployments that differ where the contract leaves a choice. The suite must pass them.
package variants

import (
	"embed"
	"strings"
	"sync"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/mutants"
)

// Variant is a deployment that conforms to the contract, but differs from the jobrunner.
type Variant struct {
	ID string
	// MayWarn are the SHOULDs that the variant violates, and with Exact the clauses whose effects are late. No other clause may warn.
	MayWarn []string
	// Choice is the contract's statement that leaves the choice.
	Choice      string
	Description string // of the difference
	Fault       string // the difference as the value of GPUCLOUD_FAULT, one or a list
	// EndpointBody has the members, as a JSON object, that the variant requires to create an endpoint.
	EndpointBody string
	// Exact says that the suite controls the variant's clock and grants it no lateness.
	Exact bool
}

// files have a variant on each line. The variants of blind.tsv were written from the contract,
// without knowledge of the cases.
//
//go:embed *.tsv
var files embed.FS

// All returns the variants in the order of their files and lines.
var All = sync.OnceValue(func() (all []Variant) {
	for _, fields := range mutants.Rows(files) {
		if len(fields) < 5 {
			panic("a variant without five columns: " + strings.Join(fields, "\t"))
		}
		v := Variant{ID: fields[0], Choice: fields[2], Description: fields[3], Fault: fields[4]}
		if fields[1] != "-" {
			v.MayWarn = strings.Fields(fields[1])
		}
		if len(fields) > 5 {
			v.EndpointBody = fields[5]
		}
		v.Exact = len(fields) > 6 && fields[6] == "exact"
		all = append(all, v)
	}
	return all
})
