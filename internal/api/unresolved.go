package api

import (
	"fmt"
	"strings"
)

func (r *restCollection[T]) unresolved(cause *Error, verdict string, candidates ...T) *UnresolvedCreateError {
	e := &UnresolvedCreateError{Kind: r.kind, Verdict: verdict, Cause: cause}
	for _, o := range candidates {
		e.Candidates = append(e.Candidates, r.id(o))
	}
	return e
}

// searchFailed reports that the search for the object failed.
func (r *restCollection[T]) searchFailed(cause *Error, err error) *UnresolvedCreateError {
	return r.unresolved(cause, "the search failed: "+strings.TrimSuffix(err.Error(), "."))
}

// UnresolvedCreateError is a create that has an unknown outcome or a name that is taken. Candidates
// are the ids of objects that it may have created.
type UnresolvedCreateError struct {
	Kind       string
	Verdict    string
	Candidates []string
	Cause      *Error
}

// Error describes the failure, the result of the search, and the remedy.
func (e *UnresolvedCreateError) Error() string {
	text := e.Cause.Sentence() + " A search for it: " + e.Verdict
	if len(e.Candidates) > 0 {
		text += ": " + strings.Join(e.Candidates, ", ") + ". Nothing was taken over and nothing was created again: look at it, and import it if it is yours."
	} else {
		text += ". Nothing was created again: apply again, and look for it first if the next plan warns of it."
	}
	if e.Cause.TimedOut {
		text += " " + e.Cause.Remedy()
	}
	return text
}

func (e *UnresolvedCreateError) Unwrap() error { return e.Cause }

// Imports lists the commands that import the candidates.
func (e *UnresolvedCreateError) Imports(typeName string) string {
	if len(e.Candidates) == 0 {
		return ""
	}
	commands := make([]string, len(e.Candidates))
	for i, id := range e.Candidates {
		commands[i] = importCommand(typeName, id)
	}
	return "\n\nTo import (or with tofu): " + strings.Join(commands, ", or ")
}

func importCommand(typeName, id string) string {
	return fmt.Sprintf("terraform import %s.NAME %s", typeName, id)
}

// withoutAdvice is an error without its advice.
type withoutAdvice struct{ cause *Error }

func (e withoutAdvice) Error() string { return e.cause.Sentence() }
func (e withoutAdvice) Unwrap() error { return e.cause }

// nothingCreated is a failed create that may be repeated.
type nothingCreated struct{ error }

func (e nothingCreated) Unwrap() error      { return e.error }
func (nothingCreated) Is(target error) bool { return target == errNothingCreated }
