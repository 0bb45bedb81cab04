package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// validateEndpoint rejects configurations that no version accepts.
func validateEndpoint(_ context.Context, c diagnostics.Check, config *endpoint) {
	config.validate(c)
	config.checkImage(c)
	if value.IsSet(config.GPU) && value.IsSet(config.CPU) {
		c.Error("gpu", "GPU and CPU workers", "gpu conflicts with cpu: the workers have either GPUs or CPUs. Remove one of them.")
	}
	if gpu := value.As[endpointGPU](config.GPU); gpu != nil {
		switch {
		case value.IsSet(gpu.Pools) && value.IsSet(gpu.TypeIDs):
			c.Error("gpu.pools", "Two GPU selections", "gpu.pools conflicts with gpu.type_ids: choose GPUs by pool or by type.")
		case gpu.Pools.IsNull() && gpu.TypeIDs.IsNull():
			c.Error("gpu.pools", "No GPU selection", "gpu needs gpu.pools (API v2) or gpu.type_ids. "+rule.MisspelledHint+" Omit gpu and cpu if any machine will do.")
		case len(gpu.ExcludedTypes.Elements()) > 0 && gpu.Pools.IsNull():
			c.Error("gpu.excluded_types", "Exclusions without pools", "gpu.excluded_types needs gpu.pools: it names types of the pools that workers must not get.")
		}
	}
	checkCUDAVersions(c, config.GPU)
	wait, workers := value.As[endpointWait](config.WaitFor), value.As[endpointWorkers](config.Workers)
	if wait != nil && wait.Worker.ValueBool() && !config.Workers.IsUnknown() && (workers == nil || !workers.Min.IsUnknown() && workers.Min.ValueInt64() == 0) {
		c.Error("wait_for.worker", "Waiting for a worker that does not start", "wait_for.worker needs workers.min of at least 1: without it no worker runs before there are jobs.")
	}
	if scaling := value.As[endpointScaling](config.Scaling); scaling != nil && value.IsSet(config.Type) && !scaling.Type.IsUnknown() {
		checkScaling(c, config.Type, *scaling)
	}
}

// checkScaling rejects settings that don't belong to the type of scaling.
func checkScaling(c diagnostics.Check, endpointType types.String, scaling endpointScaling) {
	switch typ := scalingType(endpointType, scaling.Type); {
	case endpointType.ValueString() == loadBalancer && typ != requestCount:
		c.Error("scaling.type", "A load balancer has no queue", "An endpoint of type LOAD_BALANCER scales on REQUEST_COUNT only.")
	case typ == requestCount && value.IsSet(scaling.QueueDelay):
		c.Error("scaling.queue_delay", "Setting does not fit the scaling type", "REQUEST_COUNT takes request_count, not queue_delay.")
	case typ == queueDelay && value.IsSet(scaling.RequestCount):
		c.Error("scaling.request_count", "Setting does not fit the scaling type", "QUEUE_DELAY takes queue_delay, not request_count.")
	}
}

// checkCUDAVersions rejects a minimum CUDA version together with a list of allowed versions.
func checkCUDAVersions(c diagnostics.Check, gpu types.Object) {
	versions := deref(value.As[struct {
		AllowedCUDAVersions types.Set
		MinCUDAVersion      types.String
	}](gpu))
	if len(versions.AllowedCUDAVersions.Elements()) > 0 && value.IsSet(versions.MinCUDAVersion) {
		c.Error("gpu.min_cuda_version", "Two CUDA constraints", "min_cuda_version conflicts with allowed_cuda_versions: remove one of them.")
	}
}

func scalingType(endpointType, configured types.String) string {
	if configured.IsNull() && endpointType.ValueString() == loadBalancer {
		return requestCount
	}
	return cmp.Or(configured.ValueString(), queueDelay)
}

func planEndpoint(ctx context.Context, p *planrule.Plan[endpoint]) {
	planContainer(p, (*endpoint).containerParts)
	p.Plan.Type = defaultTo(p.Config.Type, p.Prior.Type, types.StringValue(queue))
	p.Plan.Disk = plannedDisk(p.Config.Disk, p.Config.TemplateID, p.Config.Image)
	p.KeepOmitted("gpu", "cpu")
	switch { // if only one is configured, the plan doesn't keep the other
	case !p.Config.GPU.IsNull():
		p.Plan.CPU = p.Config.CPU
	case !p.Config.CPU.IsNull():
		p.Plan.GPU = p.Config.GPU
	}
	if p.Config.FlashBoot.IsNull() && p.State != nil && p.State.FlashBoot.IsNull() {
		p.Plan.FlashBoot = p.State.FlashBoot // API v1 doesn't return it after an import
	}
	planScaling(p)
	planWorkers(p)
	request := endpointRequest(ctx, p)
	namesFailed := p.Catalog.CheckNames(ctx, p.Check, request)
	request.ComputeKnown = request.ComputeKnown && !namesFailed
	planCompute(ctx, p, namesFailed)
	if p.Version == api.V1 && p.Plan.TemplateID.IsNull() {
		p.Error("template_id", "API v1 needs a template", "An endpoint of management API v1 is made from a template. Set template_id, or set api_version = %q in the provider block.", string(api.V2))
	}
	planFromTemplate(ctx, p)
	if p.State == nil || p.ChangesObject(ctx) {
		cpu := slices.DeleteFunc(p.Plan.expand().CPU, func(c api.CPU) bool { return c.VCPUCount == 0 }) // 0 stands for an unknown count
		if p.Version != api.V1 {
			checkRegistry(ctx, p, p.Prior.references(), p.Plan.Registry)
		} else if slices.ContainsFunc(cpu, func(c api.CPU) bool { return c.VCPUCount != cpu[0].VCPUCount }) {
			p.Error("cpu", "API v1 can't express this", "On management API v1 all CPU configurations have the same vcpu_count. Make them equal, or set api_version = %q in the provider block.", string(api.V2))
		}
		checkVolumes(ctx, p, "network_volumes", p.Prior.references(), value.Strings(p.Plan.NetworkVolumes))
	}
	checkPlacement(ctx, p, request, p.Plan.MaxHourlyCost)
}

func planScaling(p *planrule.Plan[endpoint]) {
	if p.Config.Scaling.IsUnknown() {
		return
	}
	scaling := deref(value.As[endpointScaling](p.Config.Scaling))
	if scaling.Type.IsUnknown() || p.Plan.Type.IsUnknown() {
		return
	}
	checkScaling(p.Check, p.Plan.Type, scaling)
	scaling.Type = types.StringValue(scalingType(p.Plan.Type, scaling.Type))
	if scaling.Type.ValueString() == requestCount {
		if scaling.RequestCount.IsNull() {
			scaling.RequestCount = types.Int64Value(int64(defaultScalingValue))
		}
	} else if scaling.QueueDelay.IsNull() {
		scaling.QueueDelay = types.Float64Value(defaultScalingValue)
	}
	if delay := scaling.QueueDelay.ValueFloat64(); p.Version == api.V1 && delay != math.Trunc(delay) {
		p.Error("scaling.queue_delay", "API v1 can't express this", "Management API v1 takes whole seconds, not %g. Round it, or set api_version = %q in the provider block.", delay, string(api.V2))
	}
	p.Plan.Scaling = value.Object(scalingAttribute, &scaling)
}

func planWorkers(p *planrule.Plan[endpoint]) {
	if p.Config.Workers.IsUnknown() {
		return
	}
	workers, scaling := value.As[endpointWorkers](p.Plan.Workers), value.As[endpointScaling](p.Plan.Scaling)
	if p.Config.Workers.IsNull() {
		workers = &endpointWorkers{Min: types.Int64Value(defaultMinWorkers), Max: types.Int64Value(defaultMaxWorkers), IdleTimeout: types.Int64Unknown()}
	}
	configured := deref(value.As[endpointWorkers](p.Config.Workers)).IdleTimeout
	byRequests := p.Plan.Type.ValueString() == queue && scaling != nil && scaling.Type.ValueString() == requestCount
	switch {
	case byRequests && value.IsSet(configured) && p.Version == api.V2:
		p.Error("workers.idle_timeout", "idle_timeout does not apply",
			"On API v2 a QUEUE endpoint that scales on REQUEST_COUNT has no idle_timeout. Leave it out, or scale on QUEUE_DELAY.")
	case !configured.IsNull():
		workers.IdleTimeout = configured
	case byRequests && p.Version == api.V2:
		workers.IdleTimeout = types.Int64Null()
	case scaling != nil && !scaling.Type.IsUnknown() && !p.Plan.Type.IsUnknown():
		workers.IdleTimeout = types.Int64Value(defaultIdleTimeout)
	}
	if !workers.Min.IsUnknown() && !workers.Max.IsUnknown() && workers.Min.ValueInt64() > workers.Max.ValueInt64() {
		p.Error("workers.min", "More workers than the maximum", "workers.min is %d and workers.max is %d. Raise max or lower min.",
			workers.Min.ValueInt64(), workers.Max.ValueInt64())
	}
	p.Plan.Workers = value.Object(workersAttribute, workers)
}

// addsOrRemoves reports whether a plan adds or removes gpu or cpu. other is the other attribute's value in
// the state. An unknown planned value counts as added only if other isn't set; otherwise it may become null,
// because an object has only one of the two.
func addsOrRemoves(planned, before, other attr.Value) bool {
	return planned.IsNull() != before.IsNull() && (!planned.IsUnknown() || other.IsNull())
}

// planCompute plans a replacement if the endpoint changes its type, or switches between gpu, cpu and neither.
// It checks that API v2 can select the GPUs, which it does by pool. namesFailed is true if CheckNames has reported
// an error.
func planCompute(ctx context.Context, p *planrule.Plan[endpoint], namesFailed bool) {
	if p.State != nil {
		var replaced []string
		if p.Changes(ctx, "type") && (p.Version != api.V1 || !p.Plan.Type.IsUnknown()) { // API v1 only has queues
			replaced = append(replaced, "type")
		}
		if addsOrRemoves(p.Plan.GPU, p.State.GPU, p.State.CPU) {
			replaced = append(replaced, "gpu")
		}
		if addsOrRemoves(p.Plan.CPU, p.State.CPU, p.State.GPU) {
			replaced = append(replaced, "cpu")
		}
		for _, attribute := range replaced {
			p.Replace(attribute)
		}
		if len(replaced) > 0 {
			p.Warn(replaced[0], "The endpoint will be replaced", "An endpoint can't change its type, or switch between gpu, cpu and neither. The apply deletes endpoint %s with its queue, "+
				"jobs and results, and creates a new one with another id and other addresses.", p.State.ID.ValueString())
		}
	}
	warnOfUnknown(p, "gpu", p.Plan.GPU, p.Prior.GPU)
	warnOfUnknown(p, "cpu", p.Plan.CPU, p.Prior.CPU)
	gpu := value.As[endpointGPU](p.Plan.GPU)
	if gpu == nil || p.Version != api.V2 || !p.Known(ctx, "gpu") {
		return
	}
	if gpu.TypeIDs.IsNull() {
		if p.State == nil || p.Changes(ctx, "gpu") {
			checkExclusions(ctx, p, value.Strings(gpu.Pools), value.Strings(gpu.ExcludedTypes))
		}
		return
	}
	ids := value.Strings(gpu.TypeIDs)
	_, _, err := p.API.SelectGPUs(ctx, ids)
	switch _, inexpressible := errors.AsType[*api.SelectionError](err); {
	case inexpressible && namesFailed:
	case inexpressible:
		p.Error("gpu.type_ids", "API v2 can't select exactly these GPU types", "%s. Choose by gpu.pools and gpu.excluded_types, or change the list.", err)
	case err != nil:
		p.Fail("gpu.type_ids", "Could not read the GPU catalog", fmt.Errorf("API v2 selects GPUs by pool, and only the catalog lists the types of a pool. %w", err))
	case len(ids) > 1 && (p.State == nil || p.Changes(ctx, "gpu.type_ids")):
		p.Warn("gpu.type_ids", "API v2 keeps no order of GPU types", "The types are translated to pools and exclusions. Workers may run on any of them, whatever their order here.")
	}
}

// checkExclusions rejects excluded types that aren't in the pools, and exclusions that leave no
// type. It checks nothing if the catalog lacks one of the pools, because the pool may be newer.
func checkExclusions(ctx context.Context, p *planrule.Plan[endpoint], pools, excluded []string) {
	if len(excluded) == 0 {
		return
	}
	catalogTypes, ok := p.Catalog.GPUTypes(ctx, p.Check)
	if !ok {
		return // the API checks them during the apply
	}
	var inPools []string
	knownPools := map[string]bool{}
	for _, t := range catalogTypes {
		knownPools[t.Pool] = true
		if slices.Contains(pools, t.Pool) {
			inPools = append(inPools, t.ID)
		}
	}
	i := slices.IndexFunc(excluded, func(id string) bool { return !slices.Contains(inPools, id) })
	switch {
	case slices.ContainsFunc(pools, func(pool string) bool { return !knownPools[pool] }):
	case i >= 0: // the excluded type isn't in the pools
		p.Error("gpu.excluded_types", "Excluded type outside of the pools", "Invalid gpu.excluded_types: expected GPU types of the pools %s (%s), got %q%s",
			commaList(sorted(pools)), commaList(sorted(inPools)), excluded[i], near.Suggest(excluded[i], inPools))
	case len(excluded) == len(inPools):
		p.Error("gpu.excluded_types", "No GPU type is left", "gpu.excluded_types names every GPU type of the pools %s. Leave one, or add a pool.", commaList(sorted(pools)))
	}
}

// planFromTemplate plans an update that applies the template again if this run changes the
// template, if the template has changed since the last update, or if somebody changed the
// endpoint's copy.
func planFromTemplate(ctx context.Context, p *planrule.Plan[endpoint]) {
	p.Plan.FromTemplate = types.ObjectUnknown(fromTemplateTypes)
	switch {
	case p.Plan.TemplateID.IsNull():
		p.Plan.FromTemplate = types.ObjectNull(fromTemplateTypes)
		return
	case p.Plan.TemplateID.IsUnknown():
		return
	}
	planned := plannedTemplate(p, p.Plan.TemplateID.ValueString())
	if p.State != nil && !p.Changes(ctx, "template_id") && !p.State.FromTemplate.IsNull() {
		desired := p.State.Private.Template
		switch {
		case planned != nil:
			desired = planned
		case desired != nil && p.State.Private.Linked: // the link doesn't include the CUDA versions: keep the state's
			desired.CUDANotFinal = true
		}
		p.Plan.FromTemplate = p.State.FromTemplate
		// Digests of another API key can't be compared. The next refresh replaces them.
		if desired != nil && (desired.Key == p.API.Digest("") || p.ChangesObject(ctx)) {
			p.Plan.FromTemplate = p.Plan.settingsFromTemplate(p.API, *desired, p.State.FromTemplate)
		}
	}
	switch id := p.Plan.TemplateID.ValueString(); {
	case p.State == nil || p.ChangesObject(ctx):
		t, err := p.API.Templates.Get(ctx, id)
		checkTemplate(p, p.Prior.references(), id, t, err, true)
	case p.State.Private.Template == nil && slices.Contains(p.State.Private.References, id) && !p.State.FromTemplate.IsNull(): // the state has no copy of the template
		warnGone(p, "template_id", "template", id)
	}
}
