// Package provider implements the gpucloud provider: its provider block and its lists of
// resources, data sources, functions and actions.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/gpucloud/terraform-provider-gpucloud/datasources"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/actions"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/ephemerals"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/functions"
	"github.com/gpucloud/terraform-provider-gpucloud/provider/pluginserver"
	"github.com/gpucloud/terraform-provider-gpucloud/resources"
)

// New returns the constructor of the provider for a release.
func New(version string) func() provider.Provider { return NewWithTransport(version, nil) }

// NewWithTransport is New with a custom transport for tests. A nil transport uses the network.
func NewWithTransport(version string, transport http.RoundTripper) func() provider.Provider {
	return func() provider.Provider { return &gpucloud{version: version, transport: transport} }
}

type gpucloud struct {
	version   string
	transport http.RoundTripper
}

// settings is the provider block. Each setting except plan_checks has an environment variable.
type settings struct {
	Service, BaseURL, QueueURL, APIVersion, APIKey, RequestTimeout types.String

	MaxHourlyCost types.Number
	PlanChecks    types.Object
}

func (p *gpucloud) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "gpucloud"
	resp.Version = p.version
}

func (p *gpucloud) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages a RunPod-compatible GPU cloud: endpoints, pods, clusters, templates, volumes, registry auths and delegations, account secrets and SSH keys, through management API v2 or v1.",
		Attributes: map[string]schema.Attribute{
			"service": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "`runpod` selects RunPod's addresses and reads the key from `RUNPOD_API_KEY`. `base_url` overrides all addresses, `queue_url` only the job API's. Environment variable: `GPUCLOUD_SERVICE`.",
				Validators:          []validator.String{rule.OneOf(slices.Sorted(maps.Keys(api.Services))...)},
			},
			"base_url": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Address of the management API, before `/v1` or `/v2`. Required without `service`. Environment variable: `GPUCLOUD_BASE_URL`.",
			},
			"queue_url": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Address of the job API, before `/v2`. Defaults to `base_url`, or without `base_url` to the address of `service`. Environment variable: `GPUCLOUD_QUEUE_URL`.",
			},
			"api_version": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Version of the management API, `v2` (default) or `v1` (retired on 15 November 2026). Environment variable: `GPUCLOUD_API_VERSION`.",
				Validators:          []validator.String{rule.OneOf(string(api.V2), string(api.V1))},
			},
			"api_key": schema.StringAttribute{
				Optional:            true,
				Sensitive:           true,
				MarkdownDescription: "API key. Prefer the environment variable `GPUCLOUD_API_KEY`, or `RUNPOD_API_KEY` with `service = \"runpod\"`.",
			},
			"request_timeout": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "How long each attempt of a request may take, such as `90s` or `2m`; default `1m`. Requests that time out, except creates, are sent up to four times. Environment variable: `GPUCLOUD_REQUEST_TIMEOUT`.",
			},
		},
	}
	maps.Copy(resp.Schema.Attributes, planCheckAttributes)
}

func (p *gpucloud) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	run := &kit.Run{Provider: "gpucloud"}
	resp.ResourceData, resp.DataSourceData, resp.ListResourceData, resp.EphemeralResourceData, resp.ActionData = run, run, run, run, run
	var block settings
	resp.Diagnostics.Append(value.Load(ctx, tfsdk.State(req.Config), &block)...)
	if resp.Diagnostics.HasError() || block.hasUnknown() {
		return // a plan without the API omits the checks that need it
	}
	s, checks := block.resolve(&resp.Diagnostics), block.catalogSettings(&resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	s.UserAgent = fmt.Sprintf("terraform-provider-gpucloud/%s (Terraform %s, or OpenTofu)", p.version, req.TerraformVersion)
	s.Transport, s.Log = p.transport, logRequest
	s.SharedReads = true // Terraform configures a provider once per walk
	client, err := api.New(s)
	if err != nil {
		setting, problem := "base_url", err.Error()
		if invalid, ok := errors.AsType[*api.SettingError](err); ok {
			setting = invalid.Setting
			if variable := block.variable(setting); variable != "" {
				problem = variable + " " + invalid.Problem
			}
		}
		resp.Diagnostics.AddAttributeError(path.Root(setting), "Invalid "+setting, problem)
		return
	}
	if s.Version == api.V1 {
		resp.Diagnostics.AddAttributeWarning(path.Root("api_version"), "Management API v1 is retired",
			"API v1 was retired on 15 November 2026. Set api_version = \"v2\", or remove it: v2 is the default, and configurations that v2 can express plan no change.")
	}
	if err := client.Verify(ctx); err != nil {
		reportUnreachable(&resp.Diagnostics, err)
		return
	}
	run.API = client
	run.Catalog = catalog.New(client, checks)
}

// logRequest writes a record of a request to the plugin's log.
func logRequest(ctx context.Context, trace bool, message string, fields map[string]any) {
	if trace {
		tflog.Trace(ctx, message, fields)
	} else {
		tflog.Debug(ctx, message, fields)
	}
}

// reportUnreachable reports a failure that affects all objects of the run.
func reportUnreachable(diags *diag.Diagnostics, err error) {
	switch e, ok := errors.AsType[*api.Error](err); {
	case errors.Is(err, context.Canceled):
		diags.AddError("The run was interrupted", err.Error())
	case ok && e.Status == http.StatusUnauthorized && e.OtherServer == "":
		diags.AddError("The API key was rejected", err.Error())
	case ok && e.Status == 0 && e.OtherServer == "":
		diags.AddError("The deployment can't be reached", err.Error())
	default:
		diags.AddError("The management API does not answer as expected", err.Error())
	}
}

func (s settings) hasUnknown() bool {
	return s.Service.IsUnknown() || s.BaseURL.IsUnknown() || s.QueueURL.IsUnknown() || s.APIVersion.IsUnknown() || s.APIKey.IsUnknown() || s.RequestTimeout.IsUnknown()
}

// resolve reads each setting from the block, or else from its variable, or else from the
// service.
func (s settings) resolve(diags *diag.Diagnostics) api.Settings {
	version, service := s.version(diags), s.service(diags)
	base, _ := attributeOrEnv(s.BaseURL, "GPUCLOUD_BASE_URL")
	queue, _ := attributeOrEnv(s.QueueURL, "GPUCLOUD_QUEUE_URL")
	if base == "" {
		base, queue = service.BaseURLs[version], cmp.Or(queue, service.QueueURL)
	}
	if base == "" && !diags.HasError() {
		diags.AddAttributeError(path.Root("base_url"), "Missing setting base_url",
			"The provider needs the address of a deployment. For a RunPod account, set service = \"runpod\" in the provider block, or GPUCLOUD_SERVICE=runpod in the environment. "+
				"For another deployment, set base_url in the provider block, or GPUCLOUD_BASE_URL in the environment. "+tryLocally)
	}
	key, source := s.key(service)
	if key == "" {
		variables := "GPUCLOUD_API_KEY"
		if service.KeyVariable != "" {
			variables += " or " + service.KeyVariable
		}
		diags.AddAttributeError(path.Root("api_key"), "Missing setting api_key",
			"The provider needs an API key of the deployment: set api_key in the provider block, or "+variables+" in the environment. "+tryLocally)
	}
	return api.Settings{
		BaseURL: base, QueueURL: queue, APIKey: key, KeySource: cmp.Or(source, "the api_key attribute of the provider block"), Version: version,
		RequestTimeout: s.requestTimeout(diags),
	}
}

const tryLocally = "To try it on this machine, start a local deployment with `jobrunner serve`: it prints the variables to export."

func (s settings) version(diags *diag.Diagnostics) api.Version {
	version, variable := attributeOrEnv(s.APIVersion, "GPUCLOUD_API_VERSION")
	switch version {
	case "":
		return api.V2
	case string(api.V1), string(api.V2):
	default:
		diags.AddAttributeError(path.Root("api_version"), "Invalid api_version",
			fmt.Sprintf("%s is %q. It is v2, which is the default, or v1.", variable, version))
	}
	return api.Version(version)
}

// service returns the configured service, or the zero Service.
func (s settings) service(diags *diag.Diagnostics) api.Service {
	name, variable := attributeOrEnv(s.Service, "GPUCLOUD_SERVICE")
	service, known := api.Services[name]
	if name != "" && !known {
		diags.AddAttributeError(path.Root("service"), "Invalid service", fmt.Sprintf("%s is %q. Set it to %s, or set the deployment's address in base_url.",
			variable, name, strings.Join(slices.Sorted(maps.Keys(api.Services)), " or ")))
	}
	return service
}

// variable returns the variable that set a setting, or "" if the block set it.
func (s settings) variable(setting string) (name string) {
	if setting == "api_key" {
		_, name = s.key(s.service(new(diag.Diagnostics)))
		return name
	}
	configured, _ := value.Attribute(&s, setting).(types.String)
	_, name = attributeOrEnv(configured, "GPUCLOUD_"+strings.ToUpper(setting))
	return name
}

// key returns the API key and the variable that set it, which is "" if the block set it.
func (s settings) key(service api.Service) (key, variable string) {
	key, variable = attributeOrEnv(s.APIKey, "GPUCLOUD_API_KEY")
	if key == "" && service.KeyVariable != "" {
		return os.Getenv(service.KeyVariable), service.KeyVariable
	}
	return key, variable
}

// timeoutBounds are the shortest and the longest request_timeout.
var timeoutBounds = [2]time.Duration{time.Second, time.Hour}

// requestTimeout returns 0 for the client's default.
func (s settings) requestTimeout(diags *diag.Diagnostics) time.Duration {
	text, source := attributeOrEnv(s.RequestTimeout, "GPUCLOUD_REQUEST_TIMEOUT")
	if text == "" {
		return 0
	}
	source = cmp.Or(source, "request_timeout")
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout < timeoutBounds[0] || timeout > timeoutBounds[1] {
		diags.AddAttributeError(path.Root("request_timeout"), "Invalid request_timeout",
			fmt.Sprintf("%s is %q. Write a duration from %s to %s in minutes and seconds, such as 90s or 2m (days aren't a unit).", source, text, timeoutBounds[0], timeoutBounds[1]))
	}
	return timeout
}

// attributeOrEnv returns a setting's value and the variable that set it, which is "" if the block set it.
func attributeOrEnv(attribute types.String, variable string) (v, usedVariable string) {
	if v := attribute.ValueString(); v != "" {
		return v, ""
	}
	return os.Getenv(variable), variable
}

func (p *gpucloud) Resources(context.Context) (all []func() resource.Resource) {
	for _, kind := range resources.All {
		all = append(all, kind.Resource)
	}
	return all
}

func (p *gpucloud) ListResources(context.Context) (all []func() list.ListResource) {
	for _, kind := range resources.All {
		all = append(all, kind.ListResource)
	}
	return all
}

func (p *gpucloud) DataSources(context.Context) []func() datasource.DataSource {
	return slices.Concat(resources.Sources, datasources.All)
}

func (p *gpucloud) Functions(context.Context) []func() function.Function { return functions.All }

func (p *gpucloud) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return ephemerals.All
}

func (p *gpucloud) Actions(context.Context) []func() action.Action { return actions.All }

// Server returns the provider as a server of the plugin protocol.
func Server(version string) tfprotov6.ProviderServer { return pluginserver.New(New(version)()) }

// Serve runs the provider for the CLI that started this process. With debugging, it waits for a
// CLI that finds it through TF_REATTACH_PROVIDERS.
func Serve(version string, debugging bool) error {
	var options []tf6server.ServeOpt
	if debugging {
		options = append(options, tf6server.WithManagedDebug())
	} else {
		leaveSIGTERMToCLI()
	}
	return tf6server.Serve("registry.terraform.io/gpucloud/gpucloud", func() tfprotov6.ProviderServer { return Server(version) }, options...)
}

// leaveSIGTERMToCLI ignores SIGTERM while the CLI runs: timeout and some CI runners signal the CLI, too,
// and it waits for requests in flight.
func leaveSIGTERMToCLI() {
	cli, received := os.Getppid(), make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGTERM)
	go func() {
		for range received {
			if os.Getppid() != cli {
				os.Exit(1)
			}
		}
	}()
}
