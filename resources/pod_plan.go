package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// validatePod rejects configurations that no API version accepts.
func validatePod(_ context.Context, c diagnostics.Check, config *pod) {
	config.validate(c)
	config.checkImage(c)
	switch {
	case value.IsSet(config.GPU) && value.IsSet(config.CPU):
		c.Error("gpu", "GPU and CPU pod", "gpu conflicts with cpu: a pod has one of them. Remove the other.")
	case config.GPU.IsNull() && config.CPU.IsNull():
		c.Error("gpu", "Missing gpu or cpu", "A pod has either GPUs or CPUs: set gpu or cpu.")
	case value.IsSet(config.CPU):
		if mounts := value.As[podMounts](config.Mounts); mounts != nil && value.IsSet(mounts.Persistent) {
			c.Error("mounts.persistent", "Persistent mount of a CPU pod", "mounts.persistent conflicts with cpu: a CPU pod has no storage on its host. Use mounts.network, or remove it.")
		}
		if deref(value.As[api.GlobalNetworking](config.GlobalNetworking)).Enabled {
			c.Error("global_networking.enabled", "Global networking of a CPU pod", "global_networking conflicts with cpu: it needs an NVIDIA GPU.")
		}
	}
	checkCUDAVersions(c, config.GPU)
	validateMounts(c, config.Mounts)
	if wait := value.As[podWait](config.WaitFor); wait != nil {
		ports := value.Strings(config.Ports)
		listed := slices.ContainsFunc(ports, func(port string) bool { return strings.HasPrefix(port, fmt.Sprintf("%d/", wait.Port.ValueInt64())) })
		switch {
		case config.DesiredState.ValueString() == api.PodExited:
			c.Error("wait_for", "Waiting for a pod that is stopped", "wait_for conflicts with desired_state = \"EXITED\": remove one of them.")
		case value.IsSet(wait.Port) && !listed && len(ports) == len(config.Ports.Elements()) && !config.Ports.IsUnknown() && config.TemplateID.IsNull():
			c.Error("wait_for.port", "Waiting for a port that is not listed", "wait_for.port is %d, and ports does not list it. Add it to ports, such as \"%[1]d/tcp\".", wait.Port.ValueInt64())
		}
	}
}

func planPod(ctx context.Context, p *planrule.Plan[pod]) {
	planContainer(p, (*pod).containerParts)
	planOmitted(p)
	checkPersistentSize(ctx, p, p.Plan.Mounts)
	planPodCopy(ctx, p)
	if p.State == nil {
		checkCreateSize(p)
	} else {
		planPodChange(ctx, p)
	}
	checkCatalog(ctx, p, podRequest(ctx, p), p.Plan.MaxHourlyCost)
	if p.State == nil || p.ChangesObject(ctx) {
		p.Plan.command().checkVersion(p.Check, p.Version)
		checkRegistry(ctx, p, p.Prior.references(), p.Plan.Registry)
		checkVolumes(ctx, p, "mounts.network", p.Prior.references(), volumeIDs(p.Plan.Mounts))
		checkPodTemplate(ctx, p, p.Plan.TemplateID)
	}
}

// checkCreateSize rejects a configuration that exceeds the size limit of a request to create a
// pod. Unknown values count as empty.
func checkCreateSize(p *planrule.Plan[pod]) {
	size, member, memberSize := p.Plan.expand().CreateSize()
	if size <= contract.MaxPodBody || p.Version != api.V2 {
		return
	}
	attribute := diagnostics.AttributeName(member)
	if text, err := json.Marshal(value.StringMap(p.Plan.Env)); member == "env" && err == nil && len(text) < memberSize/2 { // most of it is from env_wo
		attribute = "env_wo"
	}
	p.Error(attribute, "The pod's settings are too large", "API v2 creates a pod from at most %d bytes, and this configuration has %d (%s: %d). A template's settings count too: "+
		"put the data into the image or a volume.", contract.MaxPodBody, size, attribute, memberSize)
}

// planOmitted plans the attributes that the configuration omits. With a template, disk and ports are the
// template's.
func planOmitted(p *planrule.Plan[pod]) {
	p.KeepOmitted("disk", "ports", "mounts")
	if !p.Config.TemplateID.IsNull() {
		p.Plan.Disk, p.Plan.Ports = p.Config.Disk, p.Config.Ports
	}
	p.Plan.Disk = plannedDisk(p.Plan.Disk, p.Config.TemplateID, p.Config.Image)
	p.Plan.Cloud = defaultTo(p.Config.Cloud, p.Prior.Cloud, types.StringValue(contract.Default[string](podMembers.setting("cloud").V2)))
	if gpu := value.As[podGPU](p.Config.GPU); gpu != nil {
		planned, old := value.As[podGPU](p.Plan.GPU), deref(value.As[podGPU](p.Prior.GPU))
		planned.Count = defaultTo(gpu.Count, old.Count, types.Int64Value(1))
		p.Plan.GPU = value.Object(podGPUAttribute, planned)
	}
}

// podFixed are the attributes that only a create sets. This provider never updates template_id.
var podFixed = append(fixedSetting{}.forAttributes("template_id"), podMembers.fixedSettings(
	append([]string{"data_center_ids", "gpu.allowed_cuda_versions", "gpu.min_cuda_version", "gpu.min_ram_per_gpu", "gpu.min_vcpu_count_per_gpu"}, placement[1:]...)...)...)

// planPodChange separates changes that replace the pod, changes that replace its container, and
// values that are only recorded in the state: they change nothing on the pod.
func planPodChange(ctx context.Context, p *planrule.Plan[pod]) {
	replaced, recorded := fixedChanges(ctx, p, podMembers, podFixed, p.State.Private.Carried)
	if addsOrRemoves(p.Plan.GPU, p.State.GPU, p.State.CPU) || addsOrRemoves(p.Plan.CPU, p.State.CPU, p.State.GPU) {
		replaced = slices.DeleteFunc(replaced, func(a string) bool { return strings.HasPrefix(a, "gpu.") || strings.HasPrefix(a, "cpu.") })
		replaced = append([]string{"gpu"}, replaced...)
	}
	volumeLost := p.State.lostVolume(ctx, p.API, p.Plan) != ""
	if !volumeLost && mountsForceReplacement(p) {
		replaced = append(replaced, "mounts")
	}
	planReplacement(ctx, p, replaced, p.State.DataCenterIDs, p.Plan.DataCenterIDs)
	if len(replaced) > 0 {
		checkCreateSize(p)
		p.Warn(replaced[0], "The pod will be replaced", "A pod can't change its %s. The apply deletes pod %s (%s) and creates another one, with a new id and other addresses. %s With create_before_destroy, the old pod stays if the new one can't be created.",
			commaList(replaced), p.State.ID.ValueString(), p.State.Name.ValueString(), p.State.loss())
		return
	}
	changed, inherited := containerChanges(ctx, p)
	if recorded = append(recorded, inherited...); len(recorded) > 0 {
		warnRecorded(p, "pod "+p.State.ID.ValueString(), recorded)
	}
	if volumeLost { // the apply rejects a change of the mounts
		changed = slices.DeleteFunc(changed, func(attribute string) bool { return attribute == "mounts" })
	}
	planContainerChange(ctx, p, changed)
	if lost := p.State.Private.Lost; len(lost) > 0 {
		p.Warn("env", "The pod has lost variables of the deployment", "The environment of pod %s was replaced elsewhere, and no longer has %s, which the deployment had set. Only a new pod gets them again. "+
			"To set a value yourself, add the variable to env.", p.State.ID.ValueString(), commaList(lost))
	}
}

// mountsForceReplacement reports whether a change of the mounts replaces the pod. The kind of storage
// and its network volume are fixed, and storage can't be removed. With a template, omitted mounts are the template's.
func mountsForceReplacement(p *planrule.Plan[pod]) bool {
	planned := deref(value.As[podMounts](p.Plan.Mounts))
	switch {
	case p.Plan.Mounts.IsUnknown(), planned.Persistent.IsUnknown(), planned.Network.IsUnknown(), slices.ContainsFunc(planned.Network.Elements(), attr.Value.IsUnknown):
		return true
	case p.Plan.Mounts.IsNull() && !p.Plan.TemplateID.IsNull():
		return false
	}
	return p.State.storage().Kind() != expandMounts(p.Plan.Mounts).Kind()
}

// podContainerAttributes are the attributes whose change replaces the container.
var podContainerAttributes = []string{"image", "args", "entrypoint", "cmd", "docker_entrypoint", "disk", "env", "env_wo_version", "env_wo_keys", "ports", "registry", "mounts", "from_template"}

// containerChanges returns the changes that replace the container. inherited are omitted attributes
// whose values an imported pod got from its template.
func containerChanges(ctx context.Context, p *planrule.Plan[pod]) (changed, inherited []string) {
	imported := p.State.Private.Imported && !p.Plan.TemplateID.IsNull()
	state := p.State.withHidden(p.API, p.Plan.Env)
	sameCommand := (p.Plan.TemplateID.IsNull() || p.Plan.command().setsSameParts(p.State.command())) && p.Plan.command().equals(p.State.command())
	for _, attribute := range podContainerAttributes {
		before, after := p.Values(ctx, attribute)
		switch {
		case !p.Changes(ctx, attribute) || noValue(before) && noValue(after):
		case strings.HasPrefix(attribute, "env") && sameVariables(state, p.Plan), slices.Contains(commandAttributes, attribute) && sameCommand: // nothing is sent
		case imported && after != nil && (after.IsNull() || attribute == "env" && isSubset(p.Plan.Env, state.Env)):
			inherited = append(inherited, attribute)
		default:
			changed = append(changed, attribute)
		}
	}
	return changed, inherited
}

// withHidden adds to env the planned access variables that the pod has and an import hides.
func (m pod) withHidden(c *api.Client, planned types.Map) *pod {
	env := m.Env.Elements() // a copy
	for name, v := range planned.Elements() {
		if text, ok := v.(types.String); ok && m.Private.AccessDigests[name] == c.DigestVariable(name, text.ValueString()) {
			env[name] = v
		}
	}
	m.Env = types.MapValueMust(types.StringType, env)
	return &m
}

// sameVariables reports whether variables have only moved from env to env_wo.
func sameVariables(before, after *pod) bool {
	if !before.EnvWOKeys.IsNull() || before.Env.IsUnknown() || after.Env.IsUnknown() || after.EnvWOKeys.IsUnknown() {
		return false
	}
	return maps.Equal(value.StringMap(before.Env), after.withWriteOnly(value.StringMap(after.Env)))
}

// isSubset reports whether subset is known and set contains every entry of it.
func isSubset(subset, set types.Map) bool {
	for key, v := range subset.Elements() {
		if other, found := set.Elements()[key]; !found || !v.Equal(other) {
			return false
		}
	}
	return !subset.IsUnknown()
}

// planContainerChange warns about data that a running pod loses, and rejects changes that a
// lock prevents. It doesn't reject unknown values, which may turn out to be the same.
func planContainerChange(ctx context.Context, p *planrule.Plan[pod], changed []string) {
	active := api.PodState{Status: p.State.Status.ValueString()}.Active()
	stops := p.Plan.DesiredState.ValueString() == api.PodExited && active
	staysLocked := p.State.Locked.ValueBool() && p.Plan.Locked.ValueBool()
	switch {
	case staysLocked && stops:
		p.ErrorInPlace("locked", "The pod is locked", "A locked pod can't be stopped, and desired_state is EXITED. Set locked = false, or remove desired_state.")
	case staysLocked && active && slices.ContainsFunc(changed, func(a string) bool { return p.Known(ctx, a) }):
		p.ErrorInPlace("locked", "The pod is locked", "A change of %s replaces the container of pod %s, which its lock prevents. Set locked = false for this apply, or leave the settings.", commaList(changed), p.State.ID.ValueString())
	case active && len(changed) > 0:
		p.Warn(changed[0], "The container of the pod will be replaced", "A change of %s ends the processes of pod %s, and the data on its container disk is lost. Its mounts are kept.", commaList(changed), p.State.ID.ValueString())
	}
}
