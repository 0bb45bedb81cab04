//go:build mutants

package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

// fault is what GPUCLOUD_FAULT says.
type fault struct {
	Point string          `json:"point"`
	Value string          `json:"value"`
	SQL   string          `json:"sql"`
	In    string          `json:"in"` // only in statements with this piece
	Rule  string          `json:"rule"`
	Is    json.RawMessage `json:"is"`
	Wire  *wire           `json:"wire"`

	err error
}

var chosen = read(os.Getenv("GPUCLOUD_FAULT"))

func read(text string) *fault {
	f := new(fault)
	if text == "" {
		return f
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		f.err = fmt.Errorf("GPUCLOUD_FAULT: %w", err)
	}
	return f
}

// values are the names that package variables gave to Value.
var values []string

// Check answers an error where the environment asks for a fault that is not
// there.
func Check() error {
	switch {
	case chosen.err != nil:
		return chosen.err
	case chosen.Value != "" && !slices.Contains(values, chosen.Value):
		return fmt.Errorf("GPUCLOUD_FAULT: there is no value %q, but %s", chosen.Value, strings.Join(values, ", "))
	}
	return nil
}

// On tells whether the fault at a place of the code is chosen.
func On(point string) bool { return chosen.Point == point }

// Value is a limit or a default, or what the chosen fault makes of it. It is
// for package variables.
func Value[T any](name string, is T) T {
	values = append(values, name)
	if chosen.Value == name {
		if err := json.Unmarshal(chosen.Is, &is); err != nil {
			chosen.err = fmt.Errorf("GPUCLOUD_FAULT: the value %s: %w", name, err)
		}
	}
	return is
}

// SQL is a statement, or what the chosen fault makes of it.
func SQL(statement string) string {
	if chosen.SQL == "" || !strings.Contains(statement, chosen.In) {
		return statement
	}
	var is string
	if err := json.Unmarshal(chosen.Is, &is); err != nil {
		panic(fmt.Sprintf("GPUCLOUD_FAULT: is: %v", err))
	}
	return strings.ReplaceAll(statement, chosen.SQL, is)
}

// Rule is what a member of a request body must obey, or what the chosen fault
// makes of it.
func Rule(member, rule string) string {
	if chosen.Rule != member {
		return rule
	}
	var is string
	if err := json.Unmarshal(chosen.Is, &is); err != nil {
		panic(fmt.Sprintf("GPUCLOUD_FAULT: is: %v", err))
	}
	return is
}

// Handler serves what next does, or what the chosen fault makes of that.
func Handler(next http.Handler) http.Handler {
	if chosen.Wire == nil {
		return next
	}
	return chosen.Wire.handler(next)
}
