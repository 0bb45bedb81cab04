package kit

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// private is an object's state that Terraform keeps and does not show.
type private interface {
	GetKey(context.Context, string) ([]byte, diag.Diagnostics)
	SetKey(context.Context, string, []byte) diag.Diagnostics
}

const (
	madeKey  = "made"  // when, RFC 3339 in quotes
	seenKey  = "seen"  // present once a read has found it
	notesKey = "notes" // of the kind
)

// recordCreateTime records that the object was made just now, and not read since.
func recordCreateTime(ctx context.Context, p private, diags *diag.Diagnostics) {
	diags.Append(p.SetKey(ctx, madeKey, []byte(strconv.Quote(time.Now().Format(time.RFC3339Nano))))...)
	diags.Append(p.SetKey(ctx, seenKey, nil)...)
}

// restoreCreateTime tells the client when an object was made: until a read has found it
// once, a 404 does not prove that it is gone.
func restoreCreateTime(ctx context.Context, c *api.Client, id string, p private) {
	text, _ := p.GetKey(ctx, madeKey)
	seen, _ := p.GetKey(ctx, seenKey)
	plain, err := strconv.Unquote(string(text))
	if at, failed := time.Parse(time.RFC3339Nano, plain); err == nil && failed == nil && seen == nil {
		c.RestoreCreateTime(id, at)
	}
}

// loadNotes fills the model's notes from the private state. Notes of another
// form are those of another release, and say nothing.
func (k *Kind[M]) loadNotes(ctx context.Context, m *M, p private) {
	if k.Notes == nil {
		return
	}
	text, _ := p.GetKey(ctx, notesKey)
	if notes := k.Notes(m); json.Unmarshal(text, notes) != nil {
		reflect.ValueOf(notes).Elem().SetZero()
	}
}

func (k *Kind[M]) saveNotes(ctx context.Context, m *M, p private, diags *diag.Diagnostics) {
	if k.Notes == nil {
		return
	}
	text, err := json.Marshal(k.Notes(m))
	if err != nil {
		diags.AddError("Could not keep the private state", err.Error())
		return
	}
	diags.Append(p.SetKey(ctx, notesKey, text)...)
}
