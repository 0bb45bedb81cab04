package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ExistingMatch is an object that equals a planned one or has its unique name.
type ExistingMatch struct {
	ID        string
	Equal     bool // equal in all that the API returns
	NameTaken bool // has the planned name, which is unique
}

// ExistingWarning returns the plan's warning about the matches of an object. title is the kind's
// name in messages, typeName the resource type. Each summary contains an id, because Terraform
// merges warnings with equal summaries.
func ExistingWarning(matches []ExistingMatch, title, typeName string) (summary, detail string) {
	m := matches[0]
	command := importCommand(typeName, m.ID)
	if m.NameTaken {
		settings := "other settings"
		if m.Equal {
			settings = "the same settings as far as the API shows them"
		}
		return fmt.Sprintf("The name of the %s is taken: %s", title, m.ID),
			fmt.Sprintf("%s has this name, which is unique, with %s. The apply fails unless it removes or renames %s first: an object that was there before is never taken over. "+
				"If an interrupted apply left it, import it before you apply (with terraform or tofu): %s\nIf it is managed elsewhere, or create_before_destroy replaces it, choose another name.", m.ID, settings, m.ID, command)
	}
	var ids, commands []string
	for _, match := range matches {
		ids, commands = append(ids, match.ID), append(commands, importCommand(typeName, match.ID))
	}
	more := ""
	if len(matches) > 1 {
		more = fmt.Sprintf(" and %d more", len(matches)-1)
	}
	return fmt.Sprintf("An equal %s exists already: %s%s", title, m.ID, more),
		fmt.Sprintf("No resource that was read so far manages %s, with the same name and settings. If an interrupted apply left it, import it before you apply (with terraform or tofu): %s\n"+
			"Otherwise, if another instance of a count or for_each manages it, or if create_before_destroy replaces it, go on: the apply creates another one.", strings.Join(ids, ", "), strings.Join(commands, "\n"))
}

// ExistingMatches returns the objects that a create of want could be confused with: equal ones,
// which an interrupted run may have left, and the one with the same unique name. It uses the
// list that all reads share. It returns nothing if the list fails, or once this run has
// written an object of the kind, because the list then contains the run's own objects.
// It returns an equal object once: instances of a count may be planned before others are read.
func (r *restCollection[T]) ExistingMatches(ctx context.Context, want T) (matches []ExistingMatch) {
	if !r.cache.canMatch() {
		return nil
	}
	elements, err := r.sharedList(ctx, false)
	if err != nil {
		r.cache.stopMatching()
		return nil
	}
	for _, e := range elements {
		o, err := r.decode(e.raw)
		if err != nil || r.name(o) != r.name(want) || r.creates.isKnown(e.id) {
			continue
		}
		if equal := !r.writeOnly && r.same(o, want); equal || r.uniqueNames {
			if !r.uniqueNames {
				r.creates.account(e.id)
			}
			matches = append(matches, ExistingMatch{ID: e.id, Equal: equal, NameTaken: r.uniqueNames})
		}
	}
	if !r.cache.canMatch() {
		return nil
	}
	return matches
}

// canMatch reports whether the list can contain only objects of earlier runs.
func (s *listCache) canMatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared && !s.ownWrites && !s.matchesUnavailable
}

// stopMatching ends the search for this run, so that a plan waits only once for a deployment
// that doesn't answer.
func (s *listCache) stopMatching() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.matchesUnavailable = true
}

// same reports whether an object is the one that a create asked for: everything that the version
// returns must be equal. It ignores members that the version never returns or that the caller
// left to the server, and the order of lists if the order has no meaning. It builds an update to
// compare the members that an update can change, and uses sameFixed for the others.
func (r *restCollection[T]) same(got, want T) bool {
	if r.name(got) != r.name(want) || r.sameFixed != nil && !r.sameFixed(got, want) {
		return false
	}
	if r.normalize != nil {
		got, want = r.normalize(got, want)
	}
	changes, err := r.update(got, want)
	return errors.Is(err, errNoUpdate) || err == nil && len(changes) == 0
}

// errNoUpdate marks a kind that can't be changed.
var errNoUpdate = errors.New("this kind of object can't be changed: create a new one, and delete the old one")

// agrees reports whether the server's value is the requested one, or none was requested.
func agrees(got, want *string) bool {
	return want == nil || got == nil || *got == *want
}

// inOrderOf returns have if want has the same elements, else want.
func inOrderOf(have, want []string) []string {
	if len(have) == len(want) && slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))) {
		return have
	}
	return want
}
