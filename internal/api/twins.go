package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cliname"
)

// Twin is an object that a planned create would stand beside, or collide with.
type Twin struct {
	ID   string
	Same bool // equal in all that the API returns
	Name bool // has the name, which is unique
}

// Warning words what a plan says of the twin. Title is the kind's in messages,
// typeName the resource type's. Each summary has its id: of warnings with the
// same summary Terraform shows one.
func (t Twin) Warning(title, typeName string) (summary, detail string) {
	command := importCommand(typeName, t.ID)
	if t.Name {
		settings := "other settings"
		if t.Same {
			settings = "the same settings as far as the API shows them"
		}
		return fmt.Sprintf("The name of the %s is taken: %s", title, t.ID),
			fmt.Sprintf("%s has this name, which is unique, with %s. The apply fails unless it removes or renames %s first: an object that was there before is never taken over. "+
				"If an interrupted apply left it, import it before you apply: %s\nIf it is managed elsewhere, choose another name.", t.ID, settings, t.ID, command)
	}
	return fmt.Sprintf("An equal %s exists already: %s", title, t.ID),
		fmt.Sprintf("%s has the same name and settings, and nothing that was read so far manages it. If an interrupted apply left it, import it before you apply: %s\n"+
			"Otherwise go on: the apply creates another one.", t.ID, command)
}

// Imports lists the commands that import the candidates.
func (e *UnsettledError) Imports(typeName string) string {
	if len(e.Candidates) == 0 {
		return ""
	}
	commands := make([]string, len(e.Candidates))
	for i, id := range e.Candidates {
		commands[i] = importCommand(typeName, id)
	}
	return "\n\nTo import: " + strings.Join(commands, ", or ")
}

func importCommand(typeName, id string) string {
	return fmt.Sprintf("%s import %s.NAME %s", cliname.Name(), typeName, id)
}

// Twins returns the objects that a create of want could be taken for: equal
// ones, which an interrupted run may have left, and the one that has a unique
// name. They come from the list that reads share, and nothing is looked for
// once this run has written the kind: by then its own objects are among them.
// What can't be listed has no twins.
func (r *rest[T, W]) Twins(ctx context.Context, want T) (twins []Twin) {
	if !r.shelf.unwritten() {
		return nil
	}
	elements, err := r.listed(ctx)
	if err != nil {
		r.shelf.noTwins()
		return nil
	}
	for _, e := range elements {
		o, err := r.decode(e.raw)
		if err != nil || r.name(o) != r.name(want) || r.makers.mine(e.id) {
			continue
		}
		if same := !r.opaque && r.same(o, want); same || r.unique {
			twins = append(twins, Twin{ID: e.id, Same: same, Name: r.unique})
		}
	}
	if !r.shelf.unwritten() {
		return nil
	}
	return twins
}

func (s *shelf) unwritten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared && !s.wrote && !s.twinless
}

// noTwins ends the search for this run: a plan does not wait once per object
// for a deployment that does not answer.
func (s *shelf) noTwins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.twinless = true
}
