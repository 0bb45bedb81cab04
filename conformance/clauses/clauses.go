// Package clauses is the registry of what the service description says: one
// clause to each checkable statement, with its source and its level.
package clauses

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Level is how strongly the description says a clause.
type Level string

// Levels, from the strongest to none.
const (
	Must   Level = "MUST"   // stated flatly: a failure is a FAIL
	Should Level = "SHOULD" // said so, or following from two statements: a WARN
	May    Level = "MAY"    // optional: a WARN
	Unspec Level = "UNSPEC" // not shown: what comes is recorded as OBSERVED
)

// Levels are all of them, strongest first.
var Levels = []Level{Must, Should, May, Unspec}

// Clause is one statement of the description.
type Clause struct {
	ID        string
	Level     Level
	Source    string // section and row of the description
	Statement string
	Note      string
}

// Area is the part of an id that clauses of one subject share: JOB of JOB-01.
func (c Clause) Area() string { return c.ID[:strings.LastIndexByte(c.ID, '-')] }

// Untestable is the reason why no case judges the clause, "" where one does.
func (c Clause) Untestable() string {
	reason, ok := strings.CutPrefix(c.Note, "untestable:")
	if !ok {
		return ""
	}
	return strings.TrimSpace(reason)
}

//go:embed clauses.tsv
var table string

var all = sync.OnceValues(func() ([]Clause, error) { return parse(table) })

// All are the clauses in the order of the registry. The registry is part of the
// program and tested, so that it can be read.
func All() []Clause {
	list, err := all()
	if err != nil {
		return nil
	}
	return list
}

// Find is the clause of an id.
func Find(id string) (Clause, bool) {
	list := All()
	i := slices.IndexFunc(list, func(c Clause) bool { return c.ID == id })
	if i < 0 {
		return Clause{}, false
	}
	return list[i], true
}

// parse reads the registry: id, level, source, statement and note, separated by
// tabs; lines that begin with # are for readers.
func parse(text string) ([]Clause, error) {
	var list []Clause
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) < 4 || len(f) > 5 {
			return nil, fmt.Errorf("line %d: %d fields, not id, level, source, statement and note", n, len(f))
		}
		c := Clause{ID: f[0], Level: Level(f[1]), Source: f[2], Statement: f[3]}
		if len(f) == 5 {
			c.Note = f[4]
		}
		switch {
		case !strings.Contains(c.ID, "-"):
			return nil, fmt.Errorf("line %d: %q is no id like JOB-01", n, c.ID)
		case seen[c.ID]:
			return nil, fmt.Errorf("line %d: %s is there twice", n, c.ID)
		case !slices.Contains(Levels, c.Level):
			return nil, fmt.Errorf("line %d: %q is no level", n, c.Level)
		case c.Source == "" || c.Statement == "":
			return nil, fmt.Errorf("line %d: %s lacks its source or its statement", n, c.ID)
		}
		seen[c.ID] = true
		list = append(list, c)
	}
	return list, nil
}

//go:embed live.tsv
var liveTable string

// Live is the clause in the dialect of the public SDKs.
func (c Clause) Live() Clause {
	for line := range strings.Lines(liveTable) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		if len(f) == 3 && f[0] == c.ID {
			c.Level, c.Note = Level(f[1]), f[2]
		}
	}
	return c
}
