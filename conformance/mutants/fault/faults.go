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

// fault is one fault of GPUCLOUD_FAULT; the package's documentation has the forms.
type fault struct {
	Point  string          `json:"point"`
	Value  string          `json:"value"`
	SQL    string          `json:"sql"`
	In     string          `json:"in"` // only in statements that contain this
	Row    string          `json:"row"`
	Data   string          `json:"data"`
	As     string          `json:"as"` // a recoding, of Data
	Is     json.RawMessage `json:"is"`
	Wire   *wire           `json:"wire"`
	Replay *replay         `json:"again"`
}

var chosenFaults, configError = parseFaults(os.Getenv("GPUCLOUD_FAULT"))

// parseFaults decodes one fault, or a list of faults.
func parseFaults(text string) (list []*fault, err error) {
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(text, "{") {
		text = "[" + text + "]"
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("invalid GPUCLOUD_FAULT: %w", err)
	}
	return list, nil
}

// valueNames are the names that package variables gave to Value.
var valueNames []string

// Check returns an error where GPUCLOUD_FAULT is invalid, or names a value or a
// recoding that does not exist.
func Check() error {
	for _, f := range chosenFaults {
		if f.Value != "" && !slices.Contains(valueNames, f.Value) {
			return fmt.Errorf("invalid GPUCLOUD_FAULT: expected a value of %[2]s, got %[1]q", f.Value, strings.Join(valueNames, ", "))
		}
		if err := f.checkRecodings(); err != nil {
			return err
		}
	}
	return configError
}

// On tells whether the fault at this point of the code is chosen.
func On(point string) bool {
	return slices.ContainsFunc(chosenFaults, func(f *fault) bool { return f.Point == point })
}

// Value returns a limit or a default, or the value that the chosen fault puts in
// its place. It must initialize a package variable: Check knows the values by
// these calls.
func Value[T any](name string, value T) T {
	valueNames = append(valueNames, name)
	for _, f := range chosenFaults {
		if f.Value != name {
			continue
		}
		if err := json.Unmarshal(f.Is, &value); err != nil {
			configError = fmt.Errorf("invalid GPUCLOUD_FAULT: value %s: %w", name, err)
		}
	}
	return value
}

// SQL returns a statement with the replacements of the chosen faults. Whether a
// fault applies is decided by the statement as the product has it, not by what
// other faults have made of it.
func SQL(statement string) string {
	written := statement
	for _, f := range chosenFaults {
		if f.SQL != "" && strings.Contains(written, f.In) {
			statement = strings.ReplaceAll(statement, f.SQL, f.replacement())
		}
	}
	return statement
}

// InSQL tells whether a chosen fault is in a statement. All jobs then have to go
// through the statements: none may be written as it ended (engine/unwritten.go).
func InSQL() bool {
	return slices.ContainsFunc(chosenFaults, func(f *fault) bool { return f.SQL != "" })
}

// Row returns a row of the contract's table, or a copy with the facts that the chosen
// fault changes. The name is API, resource and path, such as "v1 networkVolume size".
func Row[T any](name string, row *T) *T {
	for _, f := range chosenFaults {
		if f.Row == name && row != nil {
			changed := *row
			if err := json.Unmarshal(f.Is, &changed); err != nil {
				panic(fmt.Sprintf("invalid GPUCLOUD_FAULT: expected facts of a row as \"is\": %v", err))
			}
			row = &changed
		}
	}
	return row
}

// replacement is the text that the fault puts in place of another.
func (f *fault) replacement() (text string) {
	if err := json.Unmarshal(f.Is, &text); err != nil {
		panic(fmt.Sprintf("invalid GPUCLOUD_FAULT: expected a string as \"is\": %v", err))
	}
	return text
}

// Handler wraps a handler in the faults of the kinds "wire" and "again": the first
// that is chosen is nearest to the client. /clock, by which the suite advances the
// time, has no faults.
func Handler(next http.Handler, deploymentClock *clock.Clock) http.Handler {
	faultless := next
	for _, f := range slices.Backward(chosenFaults) {
		if f.Wire != nil {
			next = f.Wire.handler(next, deploymentClock)
		}
		if f.Replay != nil {
			next = f.Replay.handler(next)
		}
	}
	faulty := next
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/clock" {
			faultless.ServeHTTP(w, r)
			return
		}
		faulty.ServeHTTP(w, r)
	})
}
