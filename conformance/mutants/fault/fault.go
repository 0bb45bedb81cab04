// Package fault gives a jobrunner the fault of a mutant, or the difference of a variant. The
// product doesn't import it: the patches in ../patches do, and ../overlay builds a jobrunner with
// them.
//
// The environment variable GPUCLOUD_FAULT has one fault, or a list of faults, as JSON:
//
//	{"point": "retry-any-state"}                          a place in the code, see On
//	{"value": "engine.asyncRetention", "is": 1860000000000} a limit or default, see Value
//	{"sql": "kind = ?", "is": "(kind = ? OR 1 = 1)"}      a part of SQL statements; with "in": "…", only of statements that contain that text, see SQL
//	{"row": "v1 networkVolume size", "is": {"Min": 0}}     facts of a row of the contract, see Row
//	{"data": "submission.input", "as": "double"}          JSON that is stored in another encoding, see Data and wirefault/recode.go
//	{"wire": {...}}                                       an edit of requests or answers, see package wirefault
package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// fault is one fault of GPUCLOUD_FAULT, in a form that the package comment describes.
type fault struct {
	Point string             `json:"point"`
	Value string             `json:"value"`
	SQL   string             `json:"sql"`
	In    string             `json:"in"` // only in statements that contain this
	Row   string             `json:"row"`
	Data  string             `json:"data"`
	As    wirefault.Recoding `json:"as"` // the recoding for Data
	Is    json.RawMessage    `json:"is"`
	Wire  *wirefault.Fault   `json:"wire"`
}

var chosenFaults, configError = parseFaults(os.Getenv("GPUCLOUD_FAULT"))

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

// valueNames are the names of all calls of Value.
var valueNames []string

// Check returns an error if GPUCLOUD_FAULT is invalid or has an unknown value.
func Check() error {
	for _, f := range chosenFaults {
		if f.Value != "" && !slices.Contains(valueNames, f.Value) {
			return fmt.Errorf("invalid GPUCLOUD_FAULT: expected a value of %s, got %q", strings.Join(valueNames, ", "), f.Value)
		}
		if f.Data != "" && f.As == "" {
			return errors.New("invalid GPUCLOUD_FAULT: \"data\" requires \"as\"")
		}
	}
	return configError
}

// On reports whether GPUCLOUD_FAULT has the fault of this point in the code.
func On(point string) bool {
	return slices.ContainsFunc(chosenFaults, func(f *fault) bool { return f.Point == point })
}

// Value returns a limit or a default, or the value that replaces it. It must initialize a
// package variable, so that Check accepts the name.
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

// SQL returns a statement with the replacements of all faults. "in" is compared with the
// original statement, without the replacements of other faults.
func SQL(statement string) string {
	original := statement
	for _, f := range chosenFaults {
		if f.SQL != "" && strings.Contains(original, f.In) {
			statement = strings.ReplaceAll(statement, f.SQL, f.replacement())
		}
	}
	return statement
}

// Row returns a row of the contract's table, or a copy with the facts that a fault changes.
// The name consists of API, resource and path, such as "v1 networkVolume size".
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

func (f *fault) replacement() (text string) {
	if err := json.Unmarshal(f.Is, &text); err != nil {
		panic(fmt.Sprintf("invalid GPUCLOUD_FAULT: expected a string as \"is\": %v", err))
	}
	return text
}

// Data returns the JSON at a place in the code, recoded by the faults.
func Data(place string, text []byte) []byte {
	for _, f := range chosenFaults {
		if f.Data == place && len(text) > 0 {
			text = wirefault.Recode(text, f.As)
		}
	}
	return text
}

// Handler wraps a handler in the faults of the form "wire". The first fault is nearest to
// the client. /clock, with which the suite advances the time, has no faults.
func Handler(next http.Handler, deploymentClock *clock.Clock) http.Handler {
	var wire []*wirefault.Fault
	for _, f := range chosenFaults {
		if f.Wire != nil {
			wire = append(wire, f.Wire)
		}
	}
	faulty := wirefault.Handler(next, wirefault.Deployment{Key: os.Getenv("GPUCLOUD_API_KEY"), Now: deploymentClock.Now}, wire...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/clock" {
			next.ServeHTTP(w, r)
			return
		}
		faulty.ServeHTTP(w, r)
	})
}

// CarryOut serves a request that the caller is about to refuse, if GPUCLOUD_FAULT has the fault of this
// point. It waits for at most 100 ms, so that a long request doesn't delay the refusal.
func CarryOut(point string, r *http.Request, serve func(http.ResponseWriter, *http.Request)) {
	if !On(point) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r = r.Clone(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(body))
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(httptest.NewRecorder(), r)
	}()
	select {
	case <-done:
	case <-time.After(100 * time.Millisecond):
	}
}
