// Package mutants lists single faults of the jobrunner, each with the clause
// that must detect it: the proof that the suite can fail.
package mutants

import (
	"embed"
	"io/fs"
	"strings"
	"sync"
)

// Mutant is a jobrunner that is wrong in one place.
type Mutant struct {
	ID string
	// Clause is the one that must detect the fault. "" is for a control, which keeps
	// all that the description states: no MUST may fail for it.
	Clause      string
	Description string // the fault, for people
	Fault       string // the fault as GPUCLOUD_FAULT tells the jobrunner
}

// files have a mutant on each line: the first one of each clause is in mutants.tsv,
// those of a class of faults in a file of its own.
//
//go:embed *.tsv
var files embed.FS

// All are the mutants in the order of the files' names, and of their lines.
var All = sync.OnceValue(func() (all []Mutant) {
	var table strings.Builder
	names, _ := fs.Glob(files, "*.tsv") // the pattern is valid
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // embedded
		}
		table.Write(text)
	}
	for line := range strings.Lines(table.String()) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if strings.HasPrefix(line, "#") || len(fields) != 4 {
			continue
		}
		if fields[1] == "-" {
			fields[1] = ""
		}
		all = append(all, Mutant{fields[0], fields[1], fields[2], fields[3]})
	}
	return all
})
