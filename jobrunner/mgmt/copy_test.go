package mgmt

import (
	"reflect"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// TestCopyFields checks each rule: a body changes what it has, an answer has no nil list or map, and
// a field of a type that can't be converted stays as it is.
func TestCopyFields(t *testing.T) {
	type body struct {
		Name, Image      *string
		TemplateID       reference
		Registry, Unread reference
		GPU              *int
	}
	type record struct {
		store.Head
		Image, TemplateID, Registry string
		GPU                         string
		List                        []string
		Map                         map[string]string
		Status                      store.PodStatus
	}
	type answer struct {
		ID, Name, Created, Status string
		Image, TemplateID         *string
		List                      []string
		Map                       map[string]string
	}
	r := record{Head: store.Head{ID: "1", Name: "before", Created: time.Unix(0, 0)}, Image: "kept", TemplateID: "t", Registry: "kept", GPU: "kept", Status: store.PodRunning}
	want := r
	want.Name, want.TemplateID = "after", ""
	if copyFields(&r, body{Name: new("after"), TemplateID: reference{Set: true}, GPU: new(1)}); !reflect.DeepEqual(r, want) {
		t.Errorf("the record is %+v, want %+v", r, want)
	}
	shown := answer{
		ID: "1", Name: "after", Created: "1970-01-01T00:00:00.000Z", Status: string(store.PodRunning),
		Image: new("kept"), List: []string{}, Map: map[string]string{},
	}
	if got := convert[record, answer](r); !reflect.DeepEqual(got, shown) {
		t.Errorf("the answer is %+v, want %+v", got, shown)
	}
}
