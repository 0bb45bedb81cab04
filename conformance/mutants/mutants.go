// Package mutants lists mutants: jobrunners with one fault, each with the clause that must
// detect it. They prove that the suite can fail.
package mutants

import (
	"embed"
	"io/fs"
	"strings"
	"sync"
)

// Mutant is a jobrunner with one fault.
type Mutant struct {
	ID string
	// Clause is the clause that must detect the fault. It is "" for a control, whose
	// difference violates no statement of the description: no MUST may fail for it.
	Clause      string
	Description string // of the fault
	Fault       string // the fault as the value of GPUCLOUD_FAULT
}

// files have a mutant on each line. mutants.tsv has single faults; the other files have one class of
// faults each.
//
//go:embed *.tsv
var files embed.FS

// All returns the mutants in the order of their files and lines.
var All = sync.OnceValue(func() (all []Mutant) {
	for _, fields := range Rows(files) {
		if len(fields) != 4 {
			panic("a mutant without four columns: " + strings.Join(fields, "\t"))
		}
		if fields[1] == "-" {
			fields[1] = ""
		}
		all = append(all, Mutant{fields[0], fields[1], fields[2], fields[3]})
	}
	return all
})

// Rows returns the rows of all embedded files, in the order of the files' names. Lines that
// begin with # are comments, and empty lines are skipped.
func Rows(files embed.FS) (rows [][]string) {
	names, _ := fs.Glob(files, "*.tsv") // the pattern is valid
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // embedded
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimRight(line, "\r\n"); line != "" && !strings.HasPrefix(line, "#") {
				rows = append(rows, strings.Split(line, "\t"))
			}
		}
	}
	return rows
}
