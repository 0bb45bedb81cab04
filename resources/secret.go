package resources

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// Secret is gpucloud_secret: a value that the environments of workers and pods refer to by
// name. Neither the API's responses nor the state contain the value.
var Secret = newCollectionKind(kit.Kind[secret]{
	Name:    "secret",
	Schema:  secretSchema,
	Version: api.V2,
	Validate: func(_ context.Context, c diagnostics.Check, config *secret) {
		checkWriteOnlyVersion(c, "value_wo", config.ValueWO, config.ValueWOVersion)
	},
	Plan: planSecret,
	Create: func(ctx context.Context, c *api.Client, config, plan *secret) error {
		var want api.Secret
		value.Expand(plan, &want)
		if want.Value = config.ValueWO.ValueString(); want.Value == "" {
			return &diagnostics.AttributeError{Attribute: "value_wo", Err: errors.New(noValueOfSecret)}
		}
		got, err := c.Secrets.Create(ctx, want)
		if got.ID == "" {
			return err
		}
		value.Flatten(got, plan)
		if err != nil { // the response was lost: the next apply sends the value again
			plan.Private.Incomplete = true
			return &diagnostics.Warning{Err: err}
		}
		return nil
	},
	Update: func(ctx context.Context, c *api.Client, config, state, plan *secret) error {
		have, err := c.Secrets.Get(ctx, state.ID.ValueString())
		if err != nil {
			return err
		}
		var want api.Secret
		value.Expand(plan, &want)
		if sendsValue(state, plan) {
			if want.Value = config.ValueWO.ValueString(); want.Value == "" {
				return &diagnostics.AttributeError{Attribute: "value_wo", Err: errors.New(noValueOfSecret)}
			}
		}
		got, err := c.Secrets.Update(ctx, have, want)
		if err != nil {
			state.Private.Incomplete = state.Private.Incomplete || want.Value != "" // the value may be stored
			return err
		}
		plan.Private.Incomplete = plan.Private.Incomplete && want.Value == ""
		plan.Private.HadVersion = plan.Private.HadVersion || !state.ValueWOVersion.IsNull()
		value.Flatten(got, plan)
		return nil
	},
}, func(c *api.Client) *api.Collection[api.Secret] { return c.Secrets }, nil, nil)

const noValueOfSecret = "a secret needs its value when it is created and when value_wo_version changes: give value_wo a value for this run"

var secretSchema = schema.Schema{
	MarkdownDescription: "An account secret. Variables in `env` refer to it as `{{ RUNPOD_SECRET_name }}`, and get its value when a worker or pod starts. API v2 only.\n\n" +
		"The value is neither in the state nor in a saved plan (Terraform 1.11, OpenTofu 1.11 and later); raise `value_wo_version` to send a new one. " +
		"Running workers and pods keep the old value. A secret can be deleted while it is in use; its placeholders then become empty strings.",
	Attributes: map[string]schema.Attribute{
		"id": idAttribute("secret"),
		"name": withValidators(withPlanModifiers(secretMembers.text("name",
			"Name of the secret: letters, digits, `_`, `.`, `-` and `/`, beginning with a letter or `_` but not with `RUNPOD`. Unique in the account, ignoring case. A change replaces the secret."),
			stringplanmodifier.RequiresReplace()), notReserved),
		"description": secretMembers.text("description", "Description, at most {max} bytes."),
		"value_wo": schema.StringAttribute{
			Optional:  true,
			Sensitive: true,
			WriteOnly: true,
			MarkdownDescription: describe(secretMembers.setting("value"), "Value of at most {max} bytes, which neither the state nor a plan contains. "+
				"Sent by a create and when `value_wo_version` changes; otherwise it may be null.", nil),
			Validators: stringRules(secretMembers.setting("value")),
		},
		"value_wo_version": schema.Int64Attribute{
			Optional: true,
			MarkdownDescription: "Required with `value_wo`; change it to send a new value. " +
				"After an import, the first apply records it and sends nothing.",
		},
		"created_at":            stableText("When the secret was created, as RFC 3339."),
		"value_last_updated_at": stableText("When the value was last changed, as RFC 3339; null if the API returns none."),
	},
}

// Source: API changes of November 2026, account secrets.
var notReserved = rule.Validator[string]{Expects: "a name that doesn't begin with RUNPOD", Holds: func(s string) bool { return !strings.HasPrefix(strings.ToUpper(s), "RUNPOD") }}

// atMostBytes limits the length of a text in UTF-8.
func atMostBytes(limit int) rule.Validator[string] {
	count := func(s string) string { return fmt.Sprintf("%d bytes", len(s)) }
	return rule.Validator[string]{Expects: fmt.Sprintf("at most %d bytes", limit), Show: count, Holds: func(s string) bool { return len(s) <= limit }}
}

type secret struct {
	ID, Name, Description, ValueWO, CreatedAt, ValueLastUpdatedAt types.String
	ValueWOVersion                                                types.Int64

	Private secretPrivate
}

type secretPrivate struct {
	Incomplete bool // the response to the create was lost: the secret may lack its value
	HadVersion bool // an earlier state had a value_wo_version
}

// sendsValue reports whether an update sends the value. An imported secret's first version is
// only recorded.
func sendsValue(state, plan *secret) bool {
	withoutVersion := plan.ValueWOVersion.IsNull() || state.ValueWOVersion.IsNull() && !state.Private.HadVersion
	return state.Private.Incomplete || !withoutVersion && !plan.ValueWOVersion.Equal(state.ValueWOVersion)
}

func planSecret(ctx context.Context, p *planrule.Plan[secret]) {
	switch {
	case p.State == nil, p.Changes(ctx, "name"):
	case sendsValue(p.State, p.Plan):
		p.Plan.ValueLastUpdatedAt = types.StringUnknown()
	default:
		if p.State.ValueWOVersion.IsNull() && p.Changes(ctx, "value_wo_version") {
			p.Warn("value_wo", "The value is not sent", "The API can't tell which value the imported secret %s has. This apply records value_wo_version, and sends no value. "+
				"To store the value, raise value_wo_version.", p.State.ID.ValueString())
		}
		return
	}
	if p.Config.ValueWO.IsNull() {
		p.Error("value_wo", "Missing value", "%s."+ignoreChangesHint, strings.ToUpper(noValueOfSecret[:1])+noValueOfSecret[1:])
	}
}
