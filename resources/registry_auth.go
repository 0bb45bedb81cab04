package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// RegistryAuth is gpucloud_registry_auth: a credential for private images. The API can neither
// return nor change a credential. To change it, an update deletes the auth and creates it again
// under its name, which is unique. The old auth is deleted first, even if create_before_destroy is
// set, here or on a resource that depends on the auth.
var RegistryAuth = newCollectionKind(kit.Kind[registryAuth]{
	Name:     "registry_auth",
	Schema:   registryAuthSchema,
	NewIDs:   true,
	Moved:    movedRegistryAuth,
	Validate: validateRegistryAuth,
	Plan:     planRegistryAuth,
	Create: func(ctx context.Context, c *api.Client, config, plan *registryAuth) error {
		err := createRegistryAuth(ctx, c, config, plan)
		if err == nil || plan.ID.IsUnknown() {
			return err
		}
		// An error would taint the auth. With create_before_destroy, Terraform would then create a
		// replacement first, which could never get the name.
		plan.Private.Incomplete = true
		return &diagnostics.Warning{Err: err}
	},
	Update: func(ctx context.Context, c *api.Client, config, state, plan *registryAuth) error {
		if !plan.ID.IsUnknown() { // this update only records values that an import couldn't know
			return nil
		}
		if err := c.RegistryAuths.Delete(ctx, state.ID.ValueString()); err != nil {
			return fmt.Errorf("the registry auth with the old credentials could not be deleted, and stays as it is: %w", err)
		}
		if err := createRegistryAuth(ctx, c, config, plan); err != nil {
			state.Private.Incomplete = true
			return fmt.Errorf("the registry auth with the old credentials is deleted, and the one with the new credentials could not be created. Apply again: %w", err)
		}
		plan.Private.Incomplete = false
		return nil
	},
}, func(c *api.Client) *api.Collection[api.RegistryAuth] { return c.RegistryAuths }, nil, func(m *registryAuth, got api.RegistryAuth) {
	m.Name = types.StringValue(got.Name)
})

func createRegistryAuth(ctx context.Context, c *api.Client, config, plan *registryAuth) error {
	var want api.RegistryAuth
	value.Expand(plan, &want)
	if plan.Password.IsNull() { // only the configuration has a write-only value
		want.Password = config.PasswordWO.ValueString()
	}
	if want.Password == "" {
		return &diagnostics.AttributeError{Attribute: "password_wo", Err: errors.New(noPassword)}
	}
	got, err := c.RegistryAuths.Create(ctx, want)
	if got.ID != "" { // the auth exists, even if there is an error
		plan.ID, plan.Name = types.StringValue(got.ID), types.StringValue(cmp.Or(got.Name, want.Name))
	}
	return err
}

const noPassword = "a registry auth needs its password when it is created and when its credentials change: give password_wo a value for this run"

var registryAuthSchema = schema.Schema{
	MarkdownDescription: "A credential for pulling private images. Templates and endpoints name it by `id` in `registry`.\n\n" +
		"With `password_wo` (Terraform 1.11, OpenTofu 1.11 and later) the password is neither in the state nor in a saved plan; raise `password_wo_version` to send a new one. " +
		"The API can't change a credential: an update deletes the auth and creates it again under its name. Its `id` changes, and resources that refer to it follow in the same apply.",
	Attributes: map[string]schema.Attribute{
		"id":       idAttribute("registry auth"),
		"name":     withPlanModifiers(registryAuthMembers.text("name", "Name of the auth, up to {max} characters, unique in the account. Forces replacement."), stringplanmodifier.RequiresReplace()),
		"username": withoutDefault(registryAuthMembers.text("username", "User name at the registry, up to {max} characters. A change recreates the auth with a new `id`. Required unless the auth is imported and keeps its credentials."), false),
		"password": withoutDefault(registryAuthMembers.text("password", "Password or token, up to {max} characters, stored in the state: prefer `password_wo`. A change, and the first apply after an import, recreate the auth with a new `id`."), false),
		"password_wo": schema.StringAttribute{
			Optional:            true,
			Sensitive:           true,
			WriteOnly:           true,
			MarkdownDescription: "Password or token, which neither the state nor a plan contains. Sent by a create and when `password_wo_version` or `username` changes; otherwise it may be null.",
			Validators:          stringRules(registryAuthMembers.setting("password")),
		},
		"password_wo_version": schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: "Required with `password_wo`; change it to send a new password, which recreates the auth with a new `id`. After an import, the first apply records it and sends nothing.",
		},
	},
}

type registryAuth struct {
	ID, Name, Username, Password, PasswordWO types.String
	PasswordWOVersion                        types.Int64

	Private registryAuthPrivate
}

type registryAuthPrivate struct {
	Incomplete bool // the auth is missing or may lack its credentials: the next apply creates it again
}

func (m *registryAuth) lacksCredentials() bool {
	return m.Username.IsNull() && m.Password.IsNull() && m.PasswordWO.IsNull() && m.PasswordWOVersion.IsNull()
}

// validateRegistryAuth requires one password. password_wo may be null with its version: the
// plan reports an error if the value is needed.
func validateRegistryAuth(_ context.Context, c diagnostics.Check, config *registryAuth) {
	switch {
	case config.lacksCredentials(): // only valid for an imported auth, which the plan checks
	case config.Username.IsNull() && (value.IsSet(config.Password) || value.IsSet(config.PasswordWO) || value.IsSet(config.PasswordWOVersion)):
		c.Error("username", "Missing username", "A password needs its username: set username, or leave out the password, too, if an imported auth keeps its credentials.")
	case value.IsSet(config.Password) && (value.IsSet(config.PasswordWO) || value.IsSet(config.PasswordWOVersion)):
		c.Error("password", "Two passwords", "password conflicts with password_wo and password_wo_version: set password, which the state keeps, or the other two.")
	case config.Password.IsNull() && config.PasswordWO.IsNull() && config.PasswordWOVersion.IsNull():
		c.Error("password_wo", "Missing password", "Set password_wo and password_wo_version, or password, which the state keeps.")
	default:
		checkWriteOnlyVersion(c, "password_wo", config.PasswordWO, config.PasswordWOVersion)
	}
}

// planRegistryAuth plans to recreate the auth when its credentials change. After an import, the
// state has no credentials. The first password_wo_version is then only recorded. The first password
// is sent, because the state must not contain a password that the auth may not have.
func planRegistryAuth(ctx context.Context, p *planrule.Plan[registryAuth]) {
	if p.State == nil || planrule.CommandReplaces("gpucloud_registry_auth.") {
		warnWhilePodsUse(ctx, p)
	}
	imported := p.State != nil && p.State.Username.IsNull()
	switch {
	case p.Config.lacksCredentials():
		if !imported || p.Changes(ctx, "name") {
			p.Error("username", "Missing credentials", "Set username with password_wo and password_wo_version, or with password, which the state keeps. Only an imported auth that keeps its name and its credentials needs none.")
		}
		return
	case p.State == nil:
	case imported && p.Plan.Password.IsNull():
		if p.Changes(ctx, "password_wo_version") {
			p.Warn("password_wo", "The password is not sent", "The API can't tell which credentials the imported auth %s holds. This apply records username and password_wo_version, and sends nothing. "+
				"To store the password, raise password_wo_version.", p.State.ID.ValueString())
		}
		return
	case p.Changes(ctx, "name"): // Terraform replaces it
		rejectWhilePodsUse(ctx, p)
		return
	case !p.State.Private.Incomplete && !p.Changes(ctx, "username") && !p.Changes(ctx, "password") && !p.Changes(ctx, "password_wo_version"):
		return
	default:
		if rejectWhilePodsUse(ctx, p); p.Diagnostics.HasError() {
			return
		}
		p.Plan.ID = types.StringUnknown()
		p.Warn("", "The registry auth will be created again", "The API can't change the credentials of auth %s. The apply deletes it and creates it again under its name, with a new id; templates and endpoints of this configuration that refer to it follow in the same apply. "+
			"Templates elsewhere that name it lose it, and pulls of private images fail in between. prevent_destroy does not hinder an update.", p.State.ID.ValueString())
	}
	if p.Plan.Password.IsNull() && p.Config.PasswordWO.IsNull() {
		p.Error("password_wo", "Missing password", "%s."+ignoreChangesHint, strings.ToUpper(noPassword[:1])+noPassword[1:])
	}
}

// rejectWhilePodsUse rejects recreating the auth while a pod uses it, because the API would
// reject the deletion.
func rejectWhilePodsUse(ctx context.Context, p *planrule.Plan[registryAuth]) {
	unchanged := func(attribute string) bool { return !p.Changes(ctx, attribute) }
	attribute := append(slices.DeleteFunc([]string{"name", "username", "password"}, unchanged), "password_wo_version")[0]
	users, err := podsUsing(ctx, p.API, p.State.ID.ValueString())
	if err != nil {
		p.Fail(attribute, "Could not see which pods use the registry auth", err)
		return
	}
	hint := ""
	if p.State.Username.IsNull() {
		hint = " If the imported auth has these credentials already, set password_wo and password_wo_version instead of password: an import only records them."
	}
	if len(users) > 0 {
		p.Error(attribute, "A pod uses the registry auth", "The API can't change auth %s, and refuses to delete it while a pod has it: %s. "+
			"Create a second gpucloud_registry_auth with the new credentials, under another name, and let the pods' registry name that one. Remove this one in a later apply.%s",
			p.State.ID.ValueString(), commaList(users), hint)
	}
}

// warnWhilePodsUse warns that a tainted auth can't be replaced while a pod uses it. Terraform plans
// the replacement as a create, without the id of the auth. With -replace, it plans an update first, and then that create.
func warnWhilePodsUse(ctx context.Context, p *planrule.Plan[registryAuth]) {
	auths, _ := p.API.RegistryAuths.ListNames(ctx) // if it fails, there is no warning
	for _, id := range api.WithName(auths, p.Plan.Name.ValueString()) {
		if users, err := podsUsing(ctx, p.API, id); err == nil && len(users) > 0 {
			p.Warn("", "A pod uses the registry auth", "The API refuses to delete auth %s while a pod has it: %s. If this plan replaces the auth, the apply fails: run terraform untaint if it is tainted, or leave out -replace.", id, commaList(users))
		}
	}
}

// podsUsing names the pods that use an auth. The list may still contain deleted pods, which count as no users.
func podsUsing(ctx context.Context, c *api.Client, id string) (users []string, err error) {
	pods, err := c.Pods.List(ctx)
	for _, pod := range pods {
		if deref(deref(pod.Container).Registry) == id && pod.Status != api.PodTerminated {
			users = append(users, pod.Name+" ("+pod.ID+")")
		}
	}
	return users, err
}
