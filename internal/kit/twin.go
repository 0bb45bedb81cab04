package kit

import (
	"context"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// private is an object's state that Terraform keeps and does not show.
type private interface {
	GetKey(context.Context, string) ([]byte, diag.Diagnostics)
}

const (
	madeKey = "made" // when, RFC 3339 in quotes
	seenKey = "seen" // present once a read has found it
)

// made returns what an object's private state says of its making, and tells
// the client: until it was seen once, a 404 is no proof of absence.
func (r *managed[M]) made(ctx context.Context, c *api.Client, id string, p private) string {
	text, _ := p.GetKey(ctx, madeKey)
	seen, _ := p.GetKey(ctx, seenKey)
	plain, err := strconv.Unquote(string(text))
	if at, failed := time.Parse(time.RFC3339Nano, plain); err == nil && failed == nil && seen == nil {
		c.Made(id, at)
	}
	return string(text)
}

// spared tells whether an object lives on under another state: it was taken
// over in this run by the create that replaces it, before its old state goes.
func (r *managed[M]) spared(c *api.Client, id, made string) bool {
	now, ours := r.run.made.Load(id)
	return ours && now != made && c.TookOver(id)
}
