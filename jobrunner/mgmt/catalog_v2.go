package mgmt

import (
	"net/http"
	"regexp"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// The levels of availability that one machine has: what is there, and what is
// not.
const (
	inStock    = "HIGH"
	outOfStock = "NONE"
)

func level(there bool) string {
	if there {
		return inStock
	}
	return outOfStock
}

// gpuTypeV2 is a GPU type in an answer. Prices are not known (package catalog).
type gpuTypeV2 struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Pool         *string           `json:"pool"` // null: in none
	Manufacturer string            `json:"manufacturer"`
	Memory       int64             `json:"memory"` // GB
	Secure       bool              `json:"secure"`
	Community    bool              `json:"community"`
	Price        gpuPriceV2        `json:"price"`
	MaxCount     maxCountV2        `json:"maxCount"`
	Availability string            `json:"availability,omitempty"`
	DataCenters  []availabilityV2  `json:"dataCenters,omitempty"`
	CUDAVersions []cudaAvailableV2 `json:"cudaVersions,omitempty"`
}

type gpuPriceV2 struct {
	Secure     float64  `json:"secure"`
	Community  float64  `json:"community"`
	Serverless *float64 `json:"serverless,omitempty"` // absent: in no pool
}

type maxCountV2 struct {
	Secure    int64 `json:"secure"`
	Community int64 `json:"community"`
}

type cudaAvailableV2 struct {
	Version   string `json:"version"`
	Available bool   `json:"available"`
}

// availabilityV2 is the availability of something in a data center, or of a data
// center's something.
type availabilityV2 struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Availability string `json:"availability"`
}

type cpuTypeV2 struct {
	ID           string           `json:"id"`
	Name         string           `json:"name"`
	Group        string           `json:"group"`
	VCPU         vcpuRangeV2      `json:"vcpu"`
	RAMGBPerVCPU float64          `json:"ramGbPerVcpu"`
	Price        cpuPriceV2       `json:"price"`
	Availability string           `json:"availability,omitempty"`
	DataCenters  []availabilityV2 `json:"dataCenters,omitempty"`
}

type vcpuRangeV2 struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

type cpuPriceV2 struct {
	SecurePerVCPU     float64 `json:"securePerVcpu"`
	ServerlessPerVCPU float64 `json:"serverlessPerVcpu"`
}

type dataCenterV2 struct {
	ID                 string           `json:"id"`
	Name               string           `json:"name"`
	Region             string           `json:"region"`
	GlobalNetwork      bool             `json:"globalNetwork"`
	NetworkVolumeTypes []string         `json:"networkVolumeTypes"`
	Compliance         []string         `json:"compliance"`
	GPUAvailability    []availabilityV2 `json:"gpuAvailability,omitempty"`
	CPUAvailability    []availabilityV2 `json:"cpuAvailability,omitempty"`
}

type gpuTypesV2 struct {
	GPUs []gpuTypeV2 `json:"gpus"`
}

type cpuTypesV2 struct {
	CPUs []cpuTypeV2 `json:"cpus"`
}

type dataCentersV2 struct {
	DataCenters []dataCenterV2 `json:"dataCenters"`
}

// gpuQuery narrows what counts as available.
type gpuQuery struct {
	availability bool
	count        int64
	countries    []string
	cudaVersions []string
	minCUDA      string
}

var (
	countryForm = regexp.MustCompile(`^[A-Z]{2}$`)
	floorForm   = regexp.MustCompile(`^\d+(\.\d+)?$`)
)

func readGPUQuery(c *call) (gpuQuery, error) {
	q := newQuery(c)
	out := gpuQuery{
		availability: q.withAvailability([]string{"POD", "CLUSTER", "SERVERLESS"}, "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion"),
		count:        q.number("count", 1, "an integer of at least 1", func(n int64) bool { return n >= 1 }),
		countries:    q.matching("countryCodes", countryForm, "a country code such as FR"),
		cudaVersions: q.matching("cudaVersions", forms["cuda"].regexp, forms["cuda"].words),
	}
	q.choice("cloud", "SECURE", "COMMUNITY")
	out.minCUDA = q.one("minCudaVersion", "major or major.minor", floorForm.MatchString)
	q.refuse(q.has("cudaVersions") && q.has("minCudaVersion"), "cudaVersions and minCudaVersion exclude each other")
	return out, q.err()
}

// accepts reports whether a CUDA version is in what the query asks for.
func (q gpuQuery) accepts(version string) bool {
	if len(q.cudaVersions) > 0 {
		return slices.Contains(q.cudaVersions, version)
	}
	return q.minCUDA == "" || catalog.CompareCUDA(version, q.minCUDA) >= 0
}

// newGPUType answers a GPU type. Where the machine has it, so does every data
// center: the machine stands in for all of them.
func newGPUType(g catalog.GPU, stock catalog.Stock, q gpuQuery) gpuTypeV2 {
	w := gpuTypeV2{
		ID: g.ID, Name: g.Name, Pool: orNull(catalog.PoolOf(g.ID)), Manufacturer: g.Manufacturer, Memory: g.Memory,
		Secure: true, Community: true,
		MaxCount: maxCountV2{catalog.MaxGPUs, catalog.MaxGPUs},
	}
	if w.Pool != nil {
		w.Price.Serverless = new(float64(0))
	}
	if !q.availability {
		return w
	}
	constrained := len(q.cudaVersions) > 0 || q.minCUDA != ""
	for _, v := range stock.CUDAVersions {
		if q.accepts(v) {
			w.CUDAVersions = append(w.CUDAVersions, cudaAvailableV2{v, stock.Count >= q.count})
		}
	}
	if stock.Count >= q.count && (!constrained || len(w.CUDAVersions) > 0) {
		w.DataCenters = places(q.countries)
	}
	w.Availability = level(len(w.DataCenters) > 0)
	return w
}

// places are the data centers in some countries, or in all.
func places(countries []string) (out []availabilityV2) {
	for _, d := range catalog.DataCenters {
		if len(countries) == 0 || slices.Contains(countries, d.Country) {
			out = append(out, availabilityV2{d.ID, d.Name, inStock})
		}
	}
	return out
}

func (s *server) listGPUTypes(c *call) (any, error) {
	q, err := readGPUQuery(c)
	if err != nil {
		return nil, err
	}
	stock := s.Stock()
	out := gpuTypesV2{[]gpuTypeV2{}}
	for _, g := range catalog.GPUsWith(stock) {
		w := newGPUType(g, stock[g.ID], q)
		if len(q.countries) == 0 || len(w.DataCenters) > 0 {
			out.GPUs = append(out.GPUs, w)
		}
	}
	return out, nil
}

func (s *server) getGPUType(c *call) (any, error) {
	q, err := readGPUQuery(c)
	if err != nil {
		return nil, err
	}
	stock := s.Stock()
	gpus := catalog.GPUsWith(stock)
	i := slices.IndexFunc(gpus, func(g catalog.GPU) bool { return g.ID == c.id })
	if i < 0 {
		return nil, inCatalog(false, "GPU type", c.id)
	}
	return newGPUType(gpus[i], stock[c.id], q), nil
}

func inCatalog(known bool, what, id string) error {
	if known {
		return nil
	}
	return httpanswer.Refuse(http.StatusNotFound, "the catalog has no %s %q", what, id)
}

// cpuQuery narrows what counts as available.
type cpuQuery struct {
	availability bool
	vcpus        int64
}

func readCPUQuery(c *call) (cpuQuery, error) {
	q := newQuery(c)
	out := cpuQuery{
		availability: q.withAvailability([]string{"POD", "SERVERLESS"}, "vcpuCount"),
		vcpus:        q.number("vcpuCount", 2, "a power of two of at least 2", func(n int64) bool { return n >= 2 && n&(n-1) == 0 }),
	}
	return out, q.err()
}

func newCPUType(f catalog.CPU, q cpuQuery) cpuTypeV2 {
	w := cpuTypeV2{ID: f.ID, Name: f.Name, Group: f.Group, VCPU: vcpuRangeV2{f.MinVCPU, f.MaxVCPU}, RAMGBPerVCPU: f.RAMGBPerVCPU}
	if q.availability {
		if q.vcpus <= f.MaxVCPU {
			w.DataCenters = places(nil)
		}
		w.Availability = level(len(w.DataCenters) > 0)
	}
	return w
}

func (s *server) listCPUTypes(c *call) (any, error) {
	q, err := readCPUQuery(c)
	return cpuTypesV2{each(catalog.CPUs, func(f catalog.CPU) cpuTypeV2 { return newCPUType(f, q) })}, err
}

func (s *server) getCPUType(c *call) (any, error) {
	q, err := readCPUQuery(c)
	if err != nil {
		return nil, err
	}
	f, ok := catalog.CPUByID(c.id)
	return newCPUType(f, q), inCatalog(ok, "CPU flavour", c.id)
}

// newDataCenter answers a data center with the stock that include asks for.
func (s *server) newDataCenter(d catalog.DataCenter, include []string) dataCenterV2 {
	w := dataCenterV2{
		ID: d.ID, Name: d.Name, Region: d.Region, NetworkVolumeTypes: catalog.VolumeTypes, Compliance: []string{},
	}
	if slices.Contains(include, "GPU_AVAILABILITY") {
		stock := s.Stock()
		for _, g := range catalog.GPUsWith(stock) {
			if stock[g.ID].Count > 0 {
				w.GPUAvailability = append(w.GPUAvailability, availabilityV2{g.ID, g.Name, inStock})
			}
		}
	}
	if slices.Contains(include, "CPU_AVAILABILITY") {
		w.CPUAvailability = each(catalog.CPUs, func(f catalog.CPU) availabilityV2 {
			return availabilityV2{f.ID, f.Name, inStock}
		})
	}
	return w
}

func (q *query) include() []string { return q.oneOf("include", "GPU_AVAILABILITY", "CPU_AVAILABILITY") }

func (s *server) listDataCenters(c *call) (any, error) {
	q := newQuery(c)
	include := q.include()
	regions := q.oneOf("regions", catalog.Regions...)
	tiers := q.oneOf("networkVolumeTypes", catalog.VolumeTypes...)
	compliance := q.oneOf("compliance", catalog.Certificates...)
	globalNetwork := q.flag("globalNetwork")
	if err := q.err(); err != nil {
		return nil, err
	}
	out := dataCentersV2{[]dataCenterV2{}}
	for _, d := range catalog.DataCenters {
		w := s.newDataCenter(d, include)
		if (regions == nil || slices.Contains(regions, w.Region)) &&
			hasAll(w.NetworkVolumeTypes, tiers) && hasAll(w.Compliance, compliance) &&
			(globalNetwork == nil || *globalNetwork == w.GlobalNetwork) {
			out.DataCenters = append(out.DataCenters, w)
		}
	}
	return out, nil
}

func hasAll(of, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(of, w) })
}

func (s *server) getDataCenter(c *call) (any, error) {
	q := newQuery(c)
	include := q.include()
	if err := q.err(); err != nil {
		return nil, err
	}
	d, ok := catalog.DataCenterByID(c.id)
	return s.newDataCenter(d, include), inCatalog(ok, "data center", c.id)
}
