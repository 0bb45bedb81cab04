//go:build !mutants

package fault

import (
	"net/http"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
)

// Check answers an error where the environment asks for a fault that is not
// there.
func Check() error { return nil }

// On tells whether the fault at a place of the code is chosen.
func On(string) bool { return false }

// Acts carries a request out that is refused, where the fault at the point is
// chosen.
func Acts(string, *http.Request, func(http.ResponseWriter, *http.Request)) {}

// Value is a limit or a default, or what the chosen fault makes of it. It is
// for package variables.
func Value[T any](_ string, is T) T { return is }

// SQL is a statement, or what the chosen fault makes of it.
func SQL(statement string) string { return statement }

// Rule is what a member of a request body must obey, or what the chosen fault
// makes of it.
func Rule(_, rule string) string { return rule }

// Data is JSON at a place of the code, or what the chosen fault makes of it.
func Data(_ string, text []byte) []byte { return text }

// Handler serves what next does, or what the chosen faults make of that.
func Handler(next http.Handler, _ *clock.Clock) http.Handler { return next }
