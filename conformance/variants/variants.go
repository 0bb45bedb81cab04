// Package variants lists deployments that differ from the jobrunner where the
// contract leaves a choice: the proof that the suite fails nothing that is
// merely different.
package variants

import (
	"embed"
	"io/fs"
	"strings"
	"sync"
)

// Variant is a deployment that keeps the contract in another way.
type Variant struct {
	ID string
	// Warns are the SHOULDs that the variant does not keep: only these may warn.
	Warns []string
	// Allowed is the statement of the description that leaves the choice.
	Allowed string
	Words   string // what is different, for people
	Fault   string // the same for the jobrunner, in GPUCLOUD_FAULT: a list
	// Body has further members of the body that makes an endpoint, in JSON, where
	// the variant needs some.
	Body string
	// Exact says that it is judged with its clock in hand, and granted no lateness:
	// then it may be warned of where it is late, whatever the clause's level.
	Exact bool
}

// Files have a variant in each line; the blind ones were written without a look
// at the cases.
//
//go:embed *.tsv
var files embed.FS

// All are the variants in the order of the files' names, and of their lines.
var All = sync.OnceValue(func() (all []Variant) {
	names, _ := fs.Glob(files, "*.tsv") // the pattern is valid
	for _, name := range names {
		table, err := files.ReadFile(name)
		if err != nil {
			panic(err) // embedded
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
			if strings.HasPrefix(line, "#") || len(f) < 5 {
				continue
			}
			v := Variant{ID: f[0], Allowed: f[2], Words: f[3], Fault: f[4]}
			if f[1] != "-" {
				v.Warns = strings.Fields(f[1])
			}
			if len(f) > 5 {
				v.Body = f[5]
			}
			v.Exact = len(f) > 6 && f[6] == "exact"
			all = append(all, v)
		}
	}
	return all
})
