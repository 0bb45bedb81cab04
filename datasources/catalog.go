package datasources

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// gpuQuery has the attributes that the data sources for one GPU type and for all have in common.
type gpuQuery struct {
	entryKey
	Product, CountryCodes, WithCUDAVersions types.Set
	GPUCount                                types.Int64
	Cloud, MinCUDAVersion, MinAvailability  types.String
}

var gpuQueryAttributes = map[string]schema.Attribute{
	"product":            productAttribute("`POD`, `CLUSTER`, `SERVERLESS`", "POD", "CLUSTER", "SERVERLESS"),
	"gpu_count":          filterInteger("Returns the availability of machines with this many GPUs; default 1. Needs `product`.", positive),
	"cloud":              filter("Returns the availability in this cloud: `SECURE` (default) or `COMMUNITY`. Needs `product`.", rule.OneOf("SECURE", "COMMUNITY")),
	"country_codes":      filterSet("Returns the availability in these countries, such as `FR`. Needs `product`.", rule.Each(matching(`^[A-Z]{2}$`, "two capital letters, such as FR"))...),
	"with_cuda_versions": filterSet("Returns the availability of machines with one of these CUDA versions, as `major.minor`. Needs `product`; not together with `min_cuda_version`.", rule.Each(matching(`^\d+\.\d+$`, "a CUDA version as major.minor, such as 12.8"))...),
	"min_cuda_version":   filter("Returns the availability of machines with at least this CUDA version, as `major` or `major.minor`. Needs `product`.", matching(`^\d+(\.\d+)?$`, "a CUDA version, such as 12 or 12.8")),
}

func (q *gpuQuery) validate(c diagnostics.Check) {
	if value.IsSet(q.WithCUDAVersions) && value.IsSet(q.MinCUDAVersion) {
		c.Error("min_cuda_version", "Two CUDA constraints", "min_cuda_version conflicts with with_cuda_versions: set one of them.")
	}
	needsProduct(c, q.Product, map[string]attr.Value{
		"gpu_count": q.GPUCount, "cloud": q.Cloud, "country_codes": q.CountryCodes,
		"with_cuda_versions": q.WithCUDAVersions, "min_cuda_version": q.MinCUDAVersion, "min_availability": q.MinAvailability,
	})
}

func (q *gpuQuery) values() url.Values {
	query := availabilityQuery(q.Product)
	setInt(query, "count", q.GPUCount)
	setText(query, "cloud", q.Cloud)
	setList(query, "countryCodes", q.CountryCodes)
	setList(query, "cudaVersions", q.WithCUDAVersions)
	setText(query, "minCudaVersion", q.MinCUDAVersion)
	return query
}

var gpuTypeAttributes = map[string]schema.Attribute{
	"id":           text("Id of the GPU type, such as `NVIDIA L4`."),
	"name":         text("Short name, such as `L4`."),
	"pool":         text("Serverless pool that the type is in; null for none."),
	"manufacturer": text("`NVIDIA`, `AMD` or `UNKNOWN`."),
	"memory":       integer("Memory in GB."),
	"secure":       boolean("Whether the secure cloud offers it."),
	"community":    boolean("Whether the community cloud offers it."),
	"price": object("Price of one GPU and hour, in USD.", map[string]schema.Attribute{
		"secure": number("Price for a pod in the secure cloud."), "community": number("Price for a pod in the community cloud."),
		"serverless": number("Price for a serverless worker; null for a type in no pool."),
	}),
	"max_count": object("Number of GPUs of the largest machine, even if they are in use.", map[string]schema.Attribute{
		"secure": integer("Maximum in the secure cloud."), "community": integer("Maximum in the community cloud."),
	}),
	"availability": text("`NONE`, `LOW`, `MEDIUM` or `HIGH`; null without `product`."),
	"data_centers": availableIn("the type", "each data center that has it; null without `product`", "data center"),
	"cuda_versions": objects("CUDA versions of the machines; null without `product`.", map[string]schema.Attribute{
		"version": text("CUDA version, as `major.minor`."), "available": boolean("Whether a machine with this version is available."),
	}),
}

// complete completes an entry: requested lists that the response lacks become empty.
func (q *gpuQuery) complete(t api.GPUType) api.GPUType {
	requested := len(q.Product.Elements()) > 0
	t.DataCenters, t.CUDAVersions = listIf(requested, t.DataCenters), listIf(requested, t.CUDAVersions)
	return t
}

type gpuTypes struct {
	gpuQuery
	Pool, Manufacturer types.String
	MinMemory          types.Int64
}

type gpuTypeList struct{ GPUTypes []api.GPUType }

var GPUTypes = catalogEntries("GPU types", "The GPU types of the catalog, with prices, and with availability if `product` is set. API v2 only.",
	merge(gpuQueryAttributes, map[string]schema.Attribute{
		"pool":             filter("Lists only GPUs in this serverless pool."),
		"manufacturer":     filter("Lists only types of this manufacturer."),
		"min_memory":       filterInteger("Lists only GPUs with at least this much memory, in GB."),
		"min_availability": minAvailabilityAttribute,
		"gpu_types":        objects("The GPU types, ordered by id.", gpuTypeAttributes),
	}),
	allGPUTypes, func(all []api.GPUType) gpuTypeList { return gpuTypeList{all} },
	func(m *gpuTypes, t api.GPUType) bool {
		return (m.Pool.IsNull() || t.Pool == m.Pool.ValueString()) &&
			(m.Manufacturer.IsNull() || t.Manufacturer == m.Manufacturer.ValueString()) &&
			t.Memory >= m.MinMemory.ValueInt64() && atLeast(t.Availability, m.MinAvailability)
	})

var GPUType = catalogEntry[gpuQuery]("GPU type", "A GPU type of the catalog, by `id` or exact `name`, with prices, and with availability if `product` is set. API v2 only.",
	merge(gpuQueryAttributes, gpuTypeAttributes, keyAttributes("GPU type", "NVIDIA L4", "L4")), allGPUTypes)

func allGPUTypes(c *api.Client) *api.CatalogList[api.GPUType] { return c.GPUTypes }

// entryKey is the id or name of a catalog entry in a configuration. Both are null in the configuration of a list.
type entryKey struct{ ID, Name types.String }

func (k entryKey) key() entryKey { return k }

// catalogQuery is a configuration that selects entries of a catalog list.
type catalogQuery[M, T any] interface {
	*M
	key() entryKey
	validate(c diagnostics.Check)
	values() url.Values
	complete(got T) T
}

// catalogEntries returns the data source for the entries of a list that keep accepts.
func catalogEntries[M any, Q catalogQuery[M, T], T, R any](title, description string, attributes map[string]schema.Attribute, list func(*api.Client) *api.CatalogList[T], newResult func([]T) R, keep func(*M, T) bool) *kit.DataSource[M, R] {
	return &kit.DataSource[M, R]{
		Name:     catalogName(title),
		Title:    title,
		Version:  api.V2,
		Schema:   schema.Schema{MarkdownDescription: description, Attributes: attributes},
		Validate: func(c diagnostics.Check, config *M) { Q(config).validate(c) },
		Read: func(ctx context.Context, c *api.Client, m *M) (R, error) {
			all, err := list(c).Find(ctx, Q(m).values())
			all = slices.DeleteFunc(all, func(t T) bool { return !keep(m, t) })
			slices.SortFunc(all, func(a, b T) int { return cmp.Compare(list(c).Head(a).ID, list(c).Head(b).ID) })
			return newResult(convert(all, Q(m).complete)), err
		},
	}
}

func catalogName(title string) string { return strings.ToLower(strings.ReplaceAll(title, " ", "_")) }

func catalogEntry[M any, Q catalogQuery[M, T], T any](title, description string, attributes map[string]schema.Attribute, list func(*api.Client) *api.CatalogList[T]) *kit.DataSource[M, T] {
	lookup := kit.Lookup{Title: title, Plural: title + "s"}
	return &kit.DataSource[M, T]{
		Name:    catalogName(title),
		Title:   title,
		Version: api.V2,
		Schema:  schema.Schema{MarkdownDescription: description, Attributes: attributes},
		Validate: func(c diagnostics.Check, config *M) {
			key := Q(config).key()
			lookup.Validate(c, key.ID, key.Name)
			Q(config).validate(c)
		},
		Read: func(ctx context.Context, c *api.Client, m *M) (T, error) {
			got, err := lookUp(ctx, lookup, Q(m).key(), Q(m).values(), list(c))
			return Q(m).complete(got), err
		},
	}
}

func keyAttributes(title, id, name string) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id":   schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{rule.NonEmpty}, MarkdownDescription: "Id of the " + title + ", such as `" + id + "`. Either this or `name` is needed."},
		"name": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{rule.NonEmpty}, MarkdownDescription: "Exact name of the " + title + ", such as `" + name + "`."},
	}
}

// lookUp finds a catalog entry in the cached list. If the list lacks an id, for example because
// of a filter, it requests the entry by id.
func lookUp[T any](ctx context.Context, l kit.Lookup, key entryKey, query url.Values, list *api.CatalogList[T]) (found T, err error) {
	all, err := list.Find(ctx, query)
	if err != nil {
		return found, err
	}
	id := key.ID.ValueString()
	if id == "" {
		unfiltered := all
		if len(query) > 0 { // a filter may exclude the name
			if unfiltered, err = list.Find(ctx, nil); err != nil {
				return found, err
			}
		}
		if id, err = l.ByName(convert(unfiltered, list.Head), key.Name.ValueString()); err != nil {
			return found, err
		}
	}
	for _, candidate := range all {
		if list.Head(candidate).ID == id {
			return candidate, nil
		}
	}
	found, err = list.Get(ctx, id, query)
	if api.IsNotFound(err) {
		unfiltered, _ := list.Find(ctx, nil) // if it fails, the error suggests no ids
		err = l.UnknownID(convert(unfiltered, list.Head), id, err)
	}
	return found, err
}

// merge merges attributes. If two have the same name, the later one wins.
func merge(sets ...map[string]schema.Attribute) map[string]schema.Attribute {
	out := map[string]schema.Attribute{}
	for _, s := range sets {
		maps.Copy(out, s)
	}
	return out
}

// cpuQuery has the attributes that the data sources for one CPU flavor and for all have in common.
type cpuQuery struct {
	entryKey
	Product         types.Set
	VCPUCount       types.Int64
	MinAvailability types.String
}

var cpuQueryAttributes = map[string]schema.Attribute{
	"product":    productAttribute("`POD`, `SERVERLESS`", "POD", "SERVERLESS"),
	"vcpu_count": filterInteger("Returns the availability of machines with this many vCPUs: a power of two, at least 2. Needs `product`.", rule.PowerOfTwo),
}

func (q *cpuQuery) validate(c diagnostics.Check) {
	needsProduct(c, q.Product, map[string]attr.Value{"vcpu_count": q.VCPUCount, "min_availability": q.MinAvailability})
}

func (q *cpuQuery) values() url.Values {
	query := availabilityQuery(q.Product)
	setInt(query, "vcpuCount", q.VCPUCount)
	return query
}

var cpuTypeAttributes = map[string]schema.Attribute{
	"id":    text("Id of the CPU flavor, such as `cpu3c`."),
	"name":  text("Name of the CPU flavor."),
	"group": text("Generation of the flavor."),
	"vcpu": object("How many vCPUs a machine can have.", map[string]schema.Attribute{
		"min": integer("Minimum."), "max": integer("Maximum."),
	}),
	"ram_gb_per_vcpu": number("Memory of one vCPU in GB."),
	"price": object("Price of one vCPU and hour, in USD.", map[string]schema.Attribute{
		"secure_per_vcpu": number("Price for a pod."), "serverless_per_vcpu": number("Price for a serverless worker."),
	}),
	"availability": text("`NONE`, `LOW`, `MEDIUM` or `HIGH`; null without `product`."),
	"data_centers": availableIn("the flavor", "each data center that has it; null without `product`", "data center"),
}

// complete completes an entry: a requested list that the response lacks becomes empty.
func (q *cpuQuery) complete(t api.CPUType) api.CPUType {
	t.DataCenters = listIf(len(q.Product.Elements()) > 0, t.DataCenters)
	return t
}

type cpuTypes struct {
	cpuQuery
	Group types.String
}

type cpuTypeList struct{ CPUTypes []api.CPUType }

var CPUTypes = catalogEntries("CPU types", "The CPU flavors of the catalog, with prices, and with availability if `product` is set. API v2 only.",
	merge(cpuQueryAttributes, map[string]schema.Attribute{
		"group":            filter("Lists only flavors of this generation."),
		"min_availability": minAvailabilityAttribute,
		"cpu_types":        objects("The CPU flavors, ordered by id.", cpuTypeAttributes),
	}),
	allCPUTypes, func(all []api.CPUType) cpuTypeList { return cpuTypeList{all} },
	func(m *cpuTypes, t api.CPUType) bool {
		return (m.Group.IsNull() || t.Group == m.Group.ValueString()) && atLeast(t.Availability, m.MinAvailability)
	})

var CPUType = catalogEntry[cpuQuery]("CPU type", "A CPU flavor of the catalog, by `id` or exact `name`, with prices, and with availability if `product` is set. API v2 only.",
	merge(cpuQueryAttributes, cpuTypeAttributes, keyAttributes("CPU flavor", "cpu3c", "Compute-Optimized")), allCPUTypes)

func allCPUTypes(c *api.Client) *api.CatalogList[api.CPUType] { return c.CPUTypes }

// levels are the levels of availability, lowest first.
var levels = []string{"NONE", "LOW", "MEDIUM", "HIGH"}

// atLeast reports whether a level is minimum or higher. An unknown level is the lowest.
func atLeast(level string, minimum types.String) bool {
	return minimum.IsNull() || slices.Index(levels, level) >= slices.Index(levels, minimum.ValueString())
}

func availableIn(subject, place, entry string) schema.ListNestedAttribute {
	return objects("Availability of "+subject+" in "+place+".", map[string]schema.Attribute{
		"id": text("Id of the " + entry + "."), "name": text("Name of the " + entry + "."), "availability": text("`NONE`, `LOW`, `MEDIUM` or `HIGH`."),
	})
}

func productAttribute(text string, products ...string) schema.SetAttribute {
	return filterSet("Products whose availability is returned: "+text+". Without it, availability is null. If there are several, the lowest availability is returned.", rule.Each(rule.OneOf(products...))...)
}

var minAvailabilityAttribute = filter("Lists only entries with at least this availability: `LOW`, `MEDIUM` or `HIGH`. Needs `product`.", rule.OneOf(levels[1:]...))

// needsProduct rejects attributes about availability if product isn't set.
func needsProduct(c diagnostics.Check, product types.Set, filters map[string]attr.Value) {
	if !product.IsNull() && (product.IsUnknown() || len(product.Elements()) > 0) {
		return
	}
	for attribute, v := range filters {
		if value.IsSet(v) {
			c.Error(attribute, "Missing product", "%s is about availability, which needs product: set product too, or remove %s.", attribute, attribute)
		}
	}
}

// availabilityQuery requests the availability for products. It is empty without products.
func availabilityQuery(product types.Set) url.Values {
	query := url.Values{}
	if products := value.Strings(product); len(products) > 0 {
		query.Set("include", "AVAILABILITY")
		setList(query, "product", product)
	}
	return query
}

// setList sets a parameter to a sorted list, so that the order of the configuration has no effect.
func setList(query url.Values, name string, v types.Set) {
	if list := value.Strings(v); len(list) > 0 {
		slices.Sort(list)
		query.Set(name, strings.Join(list, ","))
	}
}

func setInt(query url.Values, name string, v types.Int64) {
	if !v.IsNull() {
		query.Set(name, strconv.FormatInt(v.ValueInt64(), 10))
	}
}

func setText(query url.Values, name string, v types.String) {
	if !v.IsNull() {
		query.Set(name, v.ValueString())
	}
}
