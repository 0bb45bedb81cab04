package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// fault is one of those that GPUCLOUD_FAULT names.
type fault struct {
	Point string          `json:"point"`
	Value string          `json:"value"`
	SQL   string          `json:"sql"`
	In    string          `json:"in"` // only in statements with this piece
	Rule  string          `json:"rule"`
	Data  string          `json:"data"`
	As    string          `json:"as"` // a recoding, of Data
	Is    json.RawMessage `json:"is"`
	Wire  *wire           `json:"wire"`
	Again *again          `json:"again"`
}

var chosen, invalid = read(os.Getenv("GPUCLOUD_FAULT"))

// read reads one fault, or a list of them.
func read(text string) (list []*fault, err error) {
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(text, "{") {
		text = "[" + text + "]"
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("GPUCLOUD_FAULT: %w", err)
	}
	return list, nil
}

// values are the names that package variables gave to Value.
var values []string

// Check answers an error where the environment asks for a fault that is not
// there.
func Check() error {
	for _, f := range chosen {
		if f.Value != "" && !slices.Contains(values, f.Value) {
			return fmt.Errorf("GPUCLOUD_FAULT: there is no value %q, but %s", f.Value, strings.Join(values, ", "))
		}
		if err := f.checkRecodings(); err != nil {
			return err
		}
	}
	return invalid
}

// On tells whether the fault at a place of the code is chosen.
func On(point string) bool {
	return slices.ContainsFunc(chosen, func(f *fault) bool { return f.Point == point })
}

// Value is a limit or a default, or what the chosen fault makes of it. It is
// for package variables.
func Value[T any](name string, is T) T {
	values = append(values, name)
	for _, f := range chosen {
		if f.Value != name {
			continue
		}
		if err := json.Unmarshal(f.Is, &is); err != nil {
			invalid = fmt.Errorf("GPUCLOUD_FAULT: the value %s: %w", name, err)
		}
	}
	return is
}

// SQL is a statement, or what the chosen faults make of it. All of them look at
// the statement as it is written.
func SQL(statement string) string {
	written := statement
	for _, f := range chosen {
		if f.SQL != "" && strings.Contains(written, f.In) {
			statement = strings.ReplaceAll(statement, f.SQL, f.text())
		}
	}
	return statement
}

// Rule is what a member of a request body must obey, or what the chosen fault
// makes of it.
func Rule(member, rule string) string {
	for _, f := range chosen {
		if f.Rule == member {
			rule = f.text()
		}
	}
	return rule
}

func (f *fault) text() (is string) {
	if err := json.Unmarshal(f.Is, &is); err != nil {
		panic(fmt.Sprintf("GPUCLOUD_FAULT: is: %v", err))
	}
	return is
}

// Handler serves what next does, or what the chosen faults make of that: the
// first of them is the nearest to the client. The clock's own path is as it was.
func Handler(next http.Handler, time *clock.Clock) http.Handler {
	inside := next
	for _, f := range slices.Backward(chosen) {
		if f.Wire != nil {
			next = f.Wire.handler(next, time)
		}
		if f.Again != nil {
			next = f.Again.handler(next)
		}
	}
	outside := next
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/clock" {
			inside.ServeHTTP(w, r)
			return
		}
		outside.ServeHTTP(w, r)
	})
}
