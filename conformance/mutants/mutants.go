// Package mutants lists single faults of the jobrunner, each with the clause
// that must notice it: the proof that the suite can fail.
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
	// Clause is the one that must notice. "" is for a control, which breaks
	// nothing that the description says: no MUST may notice.
	Clause string
	Words  string // what is wrong, for people
	Fault  string // the same for the jobrunner, in GPUCLOUD_FAULT
}

// Files have a mutant in each line: the first of each rule is in mutants.tsv,
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
		f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if strings.HasPrefix(line, "#") || len(f) != 4 {
			continue
		}
		if f[1] == "-" {
			f[1] = ""
		}
		all = append(all, Mutant{f[0], f[1], f[2], f[3]})
	}
	return all
})
