package kit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// twin words the warning about an object that is there before it is created:
// an interrupted apply may have left it.
func (r *managed[M]) twin(t api.Twin) (summary, detail string) {
	title, command := r.kind.Title, r.imports(t.ID)
	switch {
	case t.Name && t.Same:
		return fmt.Sprintf("The %s exists already", title),
			fmt.Sprintf("%s has this name, which is unique, and the same settings as far as the API shows them. If an interrupted apply left it, go on: the apply takes it over. "+
				"If it is managed elsewhere, choose another name. To take it over by hand: %s", t.ID, command)
	case t.Name:
		return fmt.Sprintf("The name of the %s is taken", title),
			fmt.Sprintf("%s has this name, which is unique, with other settings. The apply fails unless it removes or renames that one first. To manage it here: %s", t.ID, command)
	}
	return fmt.Sprintf("An equal %s exists already", title),
		fmt.Sprintf("%s has the same name and settings, and nothing that Terraform has read so far manages it. If an interrupted apply left it, import it before you apply: %s . "+
			"Otherwise go on: the apply creates another one.", t.ID, command)
}

func (r *managed[M]) imports(id string) string {
	return fmt.Sprintf("terraform import %s_%s.NAME %s", r.run.Provider, r.kind.Name, id)
}

// advice adds to an error what can be done about the objects that it names.
func (r *managed[M]) advice(err error) string {
	unsettled, ok := errors.AsType[*api.UnsettledError](err)
	if !ok || len(unsettled.Candidates) == 0 {
		return ""
	}
	var commands []string
	for _, id := range unsettled.Candidates {
		commands = append(commands, r.imports(id))
	}
	return "\n\nTo import: " + strings.Join(commands, ", or ")
}

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
