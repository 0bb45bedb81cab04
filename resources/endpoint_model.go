package resources

import (
	"cmp"
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

type endpoint struct {
	ID             types.String `tfsdk:"id"`
	Name           types.String `tfsdk:"name"`
	Type           types.String `tfsdk:"type"`
	TemplateID     types.String `tfsdk:"template_id"`
	Registry       types.String `tfsdk:"registry"`
	GPU            types.Object `tfsdk:"gpu"`
	CPU            types.List   `tfsdk:"cpu"`
	Workers        types.Object `tfsdk:"workers"`
	Scaling        types.Object `tfsdk:"scaling"`
	DataCenterIDs  types.Set    `tfsdk:"data_center_ids"`
	NetworkVolumes types.Set    `tfsdk:"network_volumes"`
	Timeout        types.Int64  `tfsdk:"timeout"`
	FlashBoot      types.String `tfsdk:"flashboot"`
	CreatedAt      types.String `tfsdk:"created_at"`
	RequestURLs    types.Object `tfsdk:"request_urls"`
	FromTemplate   types.Object `tfsdk:"from_template"`

	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	MaxHourlyCost      types.Number `tfsdk:"max_hourly_cost"`
	WaitFor            types.Object `tfsdk:"wait_for"`
	Timeouts           types.Object `tfsdk:"timeouts"`

	container
	writeOnlyEnv
	Private endpointPrivate `tfsdk:"-"`
}

func (m *endpoint) writeOnly() (*writeOnlyEnv, *envDigests) { return &m.writeOnlyEnv, &m.Private.EnvWO }

type endpointGPU struct {
	Pools, ExcludedTypes, AllowedCUDAVersions types.Set
	TypeIDs                                   types.List
	Count                                     types.Int64
	MinCUDAVersion                            types.String
}

type endpointWorkers struct{ Min, Max, IdleTimeout types.Int64 }

type endpointScaling struct {
	Type         types.String
	QueueDelay   types.Float64
	RequestCount types.Int64
}

func (m *endpoint) expand() (want api.Endpoint) {
	value.Expand(m, &want)
	if want.Container = m.settings().expand(!m.TemplateID.IsNull()); want.Container.Env != nil || len(m.values) > 0 {
		want.Container.Env = m.merged(value.StringMap(m.Env))
	}
	return want
}

// desired is expand with GPU types translated to pools, if the version needs pools.
func (m *endpoint) desired(ctx context.Context, c *api.Client) (api.Endpoint, error) {
	want := m.expand()
	if want.GPU == nil || len(want.GPU.TypeIDs) == 0 {
		return want, nil
	}
	pools, excluded, err := c.SelectGPUs(ctx, want.GPU.TypeIDs)
	if err == nil && len(pools) > 0 {
		want.GPU.Pools, want.GPU.ExcludedTypes = pools, excluded
	}
	return want, err
}

func (m *endpoint) settings() containerSettings {
	return containerSettings{&m.container, m.command(), &m.Registry}
}

// flatten copies an answer into the model. The model doesn't change where the version returns
// nothing or an equivalent value.
func (m *endpoint) flatten(ctx context.Context, c *api.Client, got api.Endpoint) (err error) {
	imported := m.Name.IsNull()
	got.Type = cmp.Or(got.Type, m.Type.ValueString(), queue) // v1 doesn't return it and only has queues
	if id := deref(got.TemplateID); id != "" {
		m.TemplateID = types.StringValue(id)
	}
	if got.Container != nil {
		// With a template, the other settings are the template's copy: see recordRead.
		container := *got.Container
		container.Env = m.unowned(m.Private.EnvWO, container.Env)
		m.settings().flatten(container, imported || m.TemplateID.IsNull())
	}
	if m.Disk.IsUnknown() {
		m.Disk = types.Int64Null()
	}
	if m.GPU, err = m.flattenGPU(ctx, c, got.GPU, m.linked(got)); err != nil {
		return err
	}
	// v1 may omit them and doesn't guarantee their order.
	if c.Version == api.V2 || m.CPU.IsNull() || got.CPU != nil && !sameCPU(m.expand().CPU, got.CPU) {
		m.CPU = flattenCPU(got.CPU)
	}
	if c.Version == api.V2 && got.Type == queue && got.Scaling.Type == requestCount {
		got.Workers.IdleTimeout = nil
	}
	scaling := &endpointScaling{Type: types.StringValue(got.Scaling.Type)}
	if got.Scaling.Type == requestCount {
		scaling.RequestCount = types.Int64Value(got.Scaling.RequestCount)
	} else {
		scaling.QueueDelay = types.Float64Value(got.Scaling.QueueDelay)
	}
	m.Scaling = value.Object(scalingAttribute, scaling)
	got.CreatedAt = cmp.Or(m.CreatedAt.ValueString(), got.CreatedAt)
	if prior := value.Strings(m.DataCenterIDs); len(got.DataCenterIDs) == 0 && api.AllDataCenters(prior) {
		got.DataCenterIDs = prior
	}
	// A queue's URLs are derived from queue_url, so both versions show the same URLs. A load
	// balancer's URLs come from the API.
	if got.Type == queue {
		got.RequestURLs = c.Jobs.URLs(got.ID)
	}
	m.Timeout = value.KeepInt(m.Timeout, got.Timeout)
	value.Flatten(got, m, "TemplateID", "GPU", "CPU", "Scaling", "Timeout")
	return nil
}

func (m *endpoint) flattenGPU(ctx context.Context, c *api.Client, got *api.GPU, linked bool) (types.Object, error) {
	gpu := value.As[endpointGPU](m.GPU)
	switch {
	case got == nil, gpu == nil && isDefaultGPU(*got):
		return value.Object[endpointGPU](gpuAttribute, nil), nil
	case gpu == nil:
		gpu = &endpointGPU{}
	}
	switch {
	case len(got.TypeIDs) > 0: // on v1
		if len(gpu.Pools.Elements()) == 0 && !sameElements(value.Strings(gpu.TypeIDs), got.TypeIDs) {
			gpu.TypeIDs = value.KeepList(gpu.TypeIDs, got.TypeIDs)
		}
	case len(gpu.TypeIDs.Elements()) > 0: // on v2, selected by type
		pools, excluded, err := c.SelectGPUs(ctx, value.Strings(gpu.TypeIDs))
		if err != nil && !isSelectionError(err) {
			return m.GPU, err
		}
		if err != nil || !sameElements(pools, got.Pools) || !sameElements(excluded, got.ExcludedTypes) {
			gpu.TypeIDs = types.List{}
			gpu.Pools = value.KeepSet(gpu.Pools, got.Pools)
			gpu.ExcludedTypes = value.KeepSet(gpu.ExcludedTypes, got.ExcludedTypes)
		}
	case c.Version == api.V2:
		gpu.Pools = value.KeepSet(gpu.Pools, got.Pools)
		gpu.ExcludedTypes = value.KeepSet(gpu.ExcludedTypes, got.ExcludedTypes)
	}
	gpu.Count = types.Int64Value(max(got.Count, 1))
	// With a template, the CUDA versions may be the template's. On API v1, the link carries
	// none.
	if m.TemplateID.IsNull() || len(gpu.AllowedCUDAVersions.Elements()) > 0 || linked {
		gpu.AllowedCUDAVersions = value.KeepSet(gpu.AllowedCUDAVersions, got.AllowedCUDAVersions)
	}
	gpu.MinCUDAVersion = value.KeepString(gpu.MinCUDAVersion, got.MinCUDAVersion)
	return value.Object(gpuAttribute, gpu), nil
}

// isDefaultGPU reports whether an answer belongs to an endpoint that selected no GPUs.
func isDefaultGPU(got api.GPU) bool {
	return len(got.Pools)+len(got.TypeIDs)+len(got.AllowedCUDAVersions) == 0 && got.MinCUDAVersion == "" && got.Count <= 1
}

func flattenCPU(got []api.CPU) types.List {
	if len(got) == 0 {
		got = nil
	}
	return value.Of(cpuAttribute, got).(types.List)
}

func sameCPU(a, b []api.CPU) bool {
	compare := func(a, b api.CPU) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.VCPUCount, b.VCPUCount)) }
	return slices.Equal(slices.SortedFunc(slices.Values(a), compare), slices.SortedFunc(slices.Values(b), compare))
}

func sameElements(a, b []string) bool { return slices.Equal(sorted(a), sorted(b)) }
