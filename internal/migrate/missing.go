package migrate

import (
	"fmt"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// MissingIDError reports a state without the id of its object. The official provider 1.x loses
// the id in each update.
type MissingIDError struct {
	Origin
	ID   string // from the state
	Name string // of the object; "" if the state has none
}

func (e *MissingIDError) Error() string {
	what := "no id (version 1 of its provider loses the id in an update)"
	if e.ID != "" {
		what = fmt.Sprintf("the id %q (expected only letters, digits, - and _)", e.ID)
	}
	by := "its id, which the API's list shows"
	if e.Name != "" {
		by = fmt.Sprintf("its id, or by its name %q if the name is unique", e.Name)
	}
	return fmt.Sprintf("The state of the %s has %s, so the %s can't be found. Nothing was changed. "+
		"Remove the moved block, remove the old resource from the state with `terraform state rm` (or `tofu state rm`), and import the object by %s: "+
		"see the import section of gpucloud_%s in the documentation.", e.Type, what, e.Kind, by, e.Kind)
}

func (s *State) checkID() error {
	if api.ValidID(s.ID) {
		return nil
	}
	return &MissingIDError{Origin: s.Origin, ID: s.ID, Name: s.Text("name")}
}
