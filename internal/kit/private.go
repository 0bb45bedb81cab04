package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

const kindKey = "notes" // key of the kind's own part

// recordCreateTime records that the object was created just now and not read since.
func recordCreateTime(ctx context.Context, p planrule.Private, diags *diag.Diagnostics) {
	diags.Append(p.SetKey(ctx, planrule.CreatedAtKey, []byte(strconv.Quote(time.Now().Format(time.RFC3339Nano))))...)
	diags.Append(p.SetKey(ctx, planrule.SeenKey, nil)...)
}

// restoreCreateTime gives the client the time of a create: until a read has found the object
// once, a 404 doesn't prove that it is gone.
func restoreCreateTime(ctx context.Context, c *api.Client, id string, p planrule.Private, diags *diag.Diagnostics) {
	text := planrule.GetKey(ctx, p, planrule.CreatedAtKey, diags)
	seen := planrule.GetKey(ctx, p, planrule.SeenKey, diags)
	if text == nil {
		return
	}
	var created time.Time
	if err := json.Unmarshal(text, &created); err != nil {
		planrule.WarnOfUnreadable(diags, "the creation of "+id, err, "If the deployment doesn't find the object, it counts as deleted, even if it was created a moment ago.")
	} else if seen == nil {
		c.RestoreCreateTime(id, created)
	}
}

// privateState is the kind's part of the private state. Version increases when the form or the
// meaning of any kind's notes changes. The first releases wrote only the notes, without this object.
type privateState struct {
	Version *int            `json:"version"`
	Notes   json.RawMessage `json:"notes"`
}

// privateVersion is the version that this release writes.
const privateVersion = 1

// errNewerPrivate marks a private state from a newer release.
var errNewerPrivate = errors.New("a newer release wrote it")

// loadPrivate fills the model's private part from the private state. Imported and moved objects have none.
func (k *Kind[M]) loadPrivate(ctx context.Context, m *M, p planrule.Private, diags *diag.Diagnostics) {
	part := k.private(m)
	if part == nil {
		return
	}
	text := planrule.GetKey(ctx, p, kindKey, diags)
	if text == nil {
		return
	}
	name := fmt.Sprintf("the %s %s", k.Title, k.id(m).ValueString())
	switch err := readPrivate(text, part); {
	case errors.Is(err, errNewerPrivate):
		diags.AddError("A newer release of the provider wrote the state", fmt.Sprintf("The private part of the state of %s can't be read: %s. Use that release.", name, err))
	case err != nil:
		reflect.ValueOf(part).Elem().SetZero()
		planrule.WarnOfUnreadable(diags, name, err, "The provider drops it, as if the object were imported. "+
			"Write-only values can't be compared until they are sent again: raise their version, such as env_wo_version.")
	}
}

func readPrivate(text []byte, dst any) error {
	var wrapped privateState
	if err := json.Unmarshal(text, &wrapped); err != nil {
		return err
	}
	version, notes := 0, json.RawMessage(text)
	if wrapped.Version != nil {
		version, notes = *wrapped.Version, wrapped.Notes
	}
	if version < 0 || version > privateVersion {
		return fmt.Errorf("it has version %d, and this release reads 0 to %d: %w", version, privateVersion, errNewerPrivate)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(notes, &members); err != nil {
		return err
	}
	if len(members) == 0 {
		return errors.New("it is empty")
	}
	return json.Unmarshal(notes, dst)
}

func (k *Kind[M]) savePrivate(ctx context.Context, m *M, p planrule.Private, diags *diag.Diagnostics) {
	part := k.private(m)
	if part == nil {
		return
	}
	notes, err := json.Marshal(part)
	if err == nil {
		notes, err = json.Marshal(privateState{new(privateVersion), notes})
	}
	if err != nil {
		diags.AddError("Could not save the private state", err.Error())
		return
	}
	diags.Append(p.SetKey(ctx, kindKey, notes)...)
}
