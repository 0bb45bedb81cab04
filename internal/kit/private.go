package kit

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

const kindKey = "notes" // what the kind keeps

// recordCreateTime records that the object was made just now, and not read since.
func recordCreateTime(ctx context.Context, p planrule.Private, diags *diag.Diagnostics) {
	diags.Append(p.SetKey(ctx, planrule.MadeKey, []byte(strconv.Quote(time.Now().Format(time.RFC3339Nano))))...)
	diags.Append(p.SetKey(ctx, planrule.SeenKey, nil)...)
}

// restoreCreateTime gives the client the time of a create: until a read has found
// the object once, a 404 does not prove that it is gone.
func restoreCreateTime(ctx context.Context, c *api.Client, id string, p planrule.Private) {
	text, _ := p.GetKey(ctx, planrule.MadeKey)
	seen, _ := p.GetKey(ctx, planrule.SeenKey)
	plain, err := strconv.Unquote(string(text))
	if at, failed := time.Parse(time.RFC3339Nano, plain); err == nil && failed == nil && seen == nil {
		c.RestoreCreateTime(id, at)
	}
}

// loadPrivate fills the model's private part from the private state. That of another
// form is another release's, and is dropped.
func (k *Kind[M]) loadPrivate(ctx context.Context, m *M, p planrule.Private) {
	if k.Private == nil {
		return
	}
	text, _ := p.GetKey(ctx, kindKey)
	if kept := k.Private(m); json.Unmarshal(text, kept) != nil {
		reflect.ValueOf(kept).Elem().SetZero()
	}
}

func (k *Kind[M]) savePrivate(ctx context.Context, m *M, p planrule.Private, diags *diag.Diagnostics) {
	if k.Private == nil {
		return
	}
	text, err := json.Marshal(k.Private(m))
	if err != nil {
		diags.AddError("Could not keep the private state", err.Error())
		return
	}
	diags.Append(p.SetKey(ctx, kindKey, text)...)
}
