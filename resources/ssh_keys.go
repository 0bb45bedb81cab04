package resources

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// SSHKeys is gpucloud_ssh_keys: the account's SSH public keys, which form one document.
var SSHKeys = &kit.Kind[sshKeys]{
	Name:    "ssh_keys",
	Title:   "list of SSH keys",
	Single:  true,
	Schema:  sshKeysSchema,
	Version: api.V2,
	Plan:    planSSHKeys,
	Objects: func(context.Context, *api.Client) ([]api.NamedObject, error) {
		return []api.NamedObject{{ID: account, Name: "SSH keys"}}, nil
	},

	Create: func(ctx context.Context, c *api.Client, _, plan *sshKeys) error {
		return plan.edit(ctx, c, nil)
	},
	Read: func(ctx context.Context, c *api.Client, state *sshKeys) error {
		got, err := c.SSHKeys.Get(ctx)
		if err == nil {
			state.flatten(got)
		}
		return err
	},
	Update: func(ctx context.Context, c *api.Client, _, state, plan *sshKeys) error {
		oldKeys := value.Strings(state.Keys)
		if !state.KeepOthers.ValueBool() { // the resource managed all keys, including others' keys
			oldKeys = nil
		}
		return plan.edit(ctx, c, oldKeys)
	},
	Delete: func(ctx context.Context, c *api.Client, state *sshKeys) error {
		return (&sshKeys{KeepOthers: types.BoolValue(true)}).edit(ctx, c, value.Strings(state.Keys))
	},
}

// account is the id of the document. Each account has one.
const account = "account"

var sshKeysSchema = schema.Schema{
	MarkdownDescription: "The SSH public keys of the account. A pod with `start_ssh` gets the account's keys when it is created: let it depend on this resource (`depends_on`). " +
		"This resource manages all of them, unless `keep_others` is true. A deletion removes the keys in `keys`. API v2 only.",
	Attributes: map[string]schema.Attribute{
		"id": stableText("Always `account`."),
		"keys": schema.SetAttribute{
			ElementType:         types.StringType,
			Required:            true,
			MarkdownDescription: "Public keys, each as `<type> <base64-key> [comment]`, as in `~/.ssh/id_ed25519.pub`. Read such a file with `trimspace(file(…))`.",
			Validators:          []validator.Set{rule.NoNulls{}, setvalidator.ValueStringsAre(sshPublicKey)},
		},
		"keep_others": schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			Default:             booldefault.StaticBool(false),
			MarkdownDescription: "Whether keys that aren't listed here stay. Defaults to false: they are removed.",
		},
	},
}

// Source: v2 document, UpdateSshKeysRequest.
var sshPublicKey = rule.Validator[string]{
	Expects: "a public key as <type> <base64-key> [comment], such as ssh-ed25519 AAAA… me@example.com, without line breaks",
	Holds:   formRule(contract.SSHKey).Holds,
	Secret:  true, // somebody may paste a private key by mistake
}

type sshKeys struct {
	ID         types.String
	Keys       types.Set
	KeepOthers types.Bool
}

// planSSHKeys warns about the keys of others that the first apply without keep_others removes. Keys
// that are added later appear as differences after a refresh.
func planSSHKeys(ctx context.Context, p *planrule.Plan[sshKeys]) {
	if p.State != nil && !p.State.KeepOthers.ValueBool() || p.Plan.KeepOthers.ValueBool() || p.Plan.KeepOthers.IsUnknown() || p.Plan.Keys.IsUnknown() {
		return
	}
	got, err := p.API.SSHKeys.Get(ctx)
	if err != nil {
		p.Fail("keys", "Could not read the account's SSH keys", err)
		return
	}
	ownKeys := value.Strings(p.Plan.Keys)
	if len(ownKeys) < len(p.Plan.Keys.Elements()) { // some keys are still unknown
		return
	}
	if p.State != nil { // the plan already shows which of these it removes
		ownKeys = append(ownKeys, value.Strings(p.State.Keys)...)
	}
	if otherKeys := subtract(got, ownKeys); len(otherKeys) > 0 {
		p.Warn("keys", "Keys of the account will be removed", "The account has keys that are not listed here, and the apply removes them: %s. "+
			"Add them to keys, or set keep_others = true to leave them.", strings.Join(shortKeys(otherKeys), "; "))
	}
}

// edit replaces oldKeys with the model's keys. With keep_others, the other keys stay, and
// so do old keys that another resource has added in this apply, such as a replacement.
func (m *sshKeys) edit(ctx context.Context, c *api.Client, oldKeys []string) error {
	ownKeys := sorted(value.Strings(m.Keys))
	got, err := c.SSHKeys.Edit(ctx, ownKeys, func(keys, added []string) []string {
		if !m.KeepOthers.ValueBool() {
			if sameElements(keys, ownKeys) {
				return keys
			}
			return ownKeys
		}
		otherKeys := subtract(keys, subtract(oldKeys, added))
		return append(otherKeys, subtract(ownKeys, otherKeys)...)
	})
	if err == nil {
		m.flatten(got)
	}
	return err
}

// flatten copies the document into the model. With keep_others, it copies only the model's
// keys.
func (m *sshKeys) flatten(got []string) {
	m.ID = types.StringValue(account)
	m.KeepOthers = types.BoolValue(m.KeepOthers.ValueBool()) // null after an import
	if m.KeepOthers.ValueBool() {
		got = subtract(got, subtract(got, value.Strings(m.Keys)))
	}
	m.Keys = value.StringSet(got)
}

func subtract(keys, excluded []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return slices.Contains(excluded, key) })
}

func shortKeys(keys []string) []string {
	short := make([]string, len(keys))
	for i, key := range keys {
		keyType, rest, _ := strings.Cut(key, " ")
		_, comment, _ := strings.Cut(rest, " ")
		short[i] = strings.TrimSpace(keyType + " " + comment)
	}
	return short
}
