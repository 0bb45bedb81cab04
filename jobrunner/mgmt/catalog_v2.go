package mgmt

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
)

// gpuTypeV2 is a GPU type in an answer. Prices are for an hour of one GPU.
type gpuTypeV2 struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Pool         *string           `json:"pool"` // null if it's in no pool
	Manufacturer string            `json:"manufacturer"`
	Memory       int64             `json:"memory"` // GB
	Secure       bool              `json:"secure"`
	Community    bool              `json:"community"`
	Price        gpuPriceV2        `json:"price"`
	MaxCount     maxCountV2        `json:"maxCount"`
	Availability catalog.Level     `json:"availability,omitempty"`
	DataCenters  []availabilityV2  `json:"dataCenters,omitempty"`
	CUDAVersions []cudaAvailableV2 `json:"cudaVersions,omitempty"`
}

type gpuPriceV2 struct {
	Secure     catalog.USD  `json:"secure"`
	Community  catalog.USD  `json:"community"`
	Serverless *catalog.USD `json:"serverless,omitempty"` // absent if it's in no pool
}

type maxCountV2 struct {
	Secure    int64 `json:"secure"`
	Community int64 `json:"community"`
}

type cudaAvailableV2 struct {
	Version   string `json:"version"`
	Available bool   `json:"available"`
}

// availabilityV2 is the availability of a GPU or CPU type in one data center. It
// names the data center in an answer about the type, and the type in an answer
// about the data center.
type availabilityV2 struct {
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Availability catalog.Level `json:"availability"`
}

type cpuTypeV2 struct {
	ID           string           `json:"id"`
	Name         string           `json:"name"`
	Group        string           `json:"group"`
	VCPU         vcpuRangeV2      `json:"vcpu"`
	RAMGBPerVCPU float64          `json:"ramGbPerVcpu"`
	Price        cpuPriceV2       `json:"price"`
	Availability catalog.Level    `json:"availability,omitempty"`
	DataCenters  []availabilityV2 `json:"dataCenters,omitempty"`
}

type vcpuRangeV2 struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

type cpuPriceV2 struct {
	SecurePerVCPU     catalog.USD `json:"securePerVcpu"`
	ServerlessPerVCPU catalog.USD `json:"serverlessPerVcpu"`
}

type dataCenterV2 struct {
	ID              string           `json:"id"`
	Name            string           `json:"name"`
	Region          string           `json:"region"`
	GlobalNetwork   bool             `json:"globalNetwork"`
	VolumeTypes     []string         `json:"networkVolumeTypes"`
	Compliance      []string         `json:"compliance"`
	GPUAvailability []availabilityV2 `json:"gpuAvailability,omitempty"`
	CPUAvailability []availabilityV2 `json:"cpuAvailability,omitempty"`
}

// gpuQuery has the conditions under which a GPU type counts as available.
type gpuQuery struct {
	availability bool
	products     []string
	cloud        string
	count        int64
	countries    []string
	cudaVersions []string
	minCUDA      string
}

var (
	countryPattern = regexp.MustCompile(`^[A-Z]{2}$`)
	minCUDAPattern = regexp.MustCompile(`^\d+(\.\d+)?$`)
)

func readGPUQuery(q *query) gpuQuery {
	out := gpuQuery{
		count:        q.integer("count", 1, "an integer of at least 1", func(n int64) bool { return n >= 1 }),
		countries:    q.patternList("countryCodes", countryPattern, "a country code such as FR"),
		cudaVersions: q.patternList("cudaVersions", pattern(contract.CUDAVersion), contract.CUDAVersion.Words),
	}
	out.availability, out.products = q.readAvailability(catalog.Products, "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion")
	out.cloud = cmp.Or(q.enumValue("cloud", catalog.Clouds...), catalog.Secure)
	out.minCUDA = q.patternValue("minCudaVersion", minCUDAPattern, "major or major.minor")
	q.refuseIf(q.has("cudaVersions") && q.has("minCudaVersion"), "cudaVersions and minCudaVersion exclude each other: set one of them")
	return out
}

// accepts reports whether the query allows a CUDA version.
func (q gpuQuery) accepts(version string) bool {
	if len(q.cudaVersions) > 0 {
		return slices.Contains(q.cudaVersions, version)
	}
	return q.minCUDA == "" || catalog.CompareCUDA(version, q.minCUDA) >= 0
}

// newGPUType shows a GPU type.
func newGPUType(offered *catalog.Catalog, g catalog.GPU, stock catalog.Stock, q gpuQuery) gpuTypeV2 {
	offer := offered.OfferOf(g.ID)
	secure, community := offer.MaxCount[catalog.Secure], offer.MaxCount[catalog.Community]
	w := gpuTypeV2{
		Pool: nilIfEmpty(offered.PoolOf(g.ID)), Secure: secure > 0, Community: community > 0,
		Price:    gpuPriceV2{Secure: offer.Price.Pod[catalog.Secure], Community: offer.Price.Pod[catalog.Community]},
		MaxCount: maxCountV2{secure, community},
	}
	copyFields(&w, g)
	if w.Pool != nil {
		w.Price.Serverless = &offer.Price.Serverless
	}
	if q.availability {
		q.addAvailability(&w, offered, offer, stock)
	}
	return w
}

func (c *call) listGPUTypes(q gpuQuery) ([]gpuTypeV2, error) {
	offered, stock := c.Catalog.Now(), c.Stock()
	out := []gpuTypeV2{}
	for _, g := range offered.GPUsWith(stock) {
		w := newGPUType(offered, g, stock[g.ID], q)
		if len(q.countries) == 0 || len(w.DataCenters) > 0 {
			out = append(out, w)
		}
	}
	return out, nil
}

func (c *call) getGPUType(q gpuQuery) (w gpuTypeV2, err error) {
	offered, stock := c.Catalog.Now(), c.Stock()
	gpus := offered.GPUsWith(stock)
	i := slices.IndexFunc(gpus, func(g catalog.GPU) bool { return g.ID == c.id })
	if i < 0 {
		return w, requireCatalogEntry(false, "GPU type", c.id)
	}
	return newGPUType(offered, gpus[i], stock[c.id], q), nil
}

func requireCatalogEntry(found bool, kind, id string) error {
	if found {
		return nil
	}
	return httpanswer.Refuse(http.StatusNotFound, "the catalog has no %s %q", kind, id)
}

// cpuQuery has the conditions under which a CPU flavor counts as available.
type cpuQuery struct {
	availability bool
	products     []string
	vcpus        int64
}

func readCPUQuery(q *query) (out cpuQuery) {
	out.vcpus = q.integer("vcpuCount", 2, "a power of two of at least 2", func(n int64) bool { return n >= 2 && n&(n-1) == 0 })
	out.availability, out.products = q.readAvailability([]string{catalog.Pod, catalog.Serverless}, "vcpuCount")
	return out
}

func newCPUType(offered *catalog.Catalog, f catalog.CPU, q cpuQuery) cpuTypeV2 {
	price := offered.CPUPriceOf(f.ID)
	w := cpuTypeV2{VCPU: vcpuRangeV2{f.MinVCPU, f.MaxVCPU}, Price: cpuPriceV2{price.Secure, price.Serverless}}
	copyFields(&w, f)
	if q.availability {
		q.addAvailability(&w, offered, f)
	}
	return w
}

func (c *call) listCPUTypes(q cpuQuery) ([]cpuTypeV2, error) {
	offered := c.Catalog.Now()
	return convertAll(offered.CPUs, func(f catalog.CPU) cpuTypeV2 { return newCPUType(offered, f, q) }), nil
}

func (c *call) getCPUType(q cpuQuery) (cpuTypeV2, error) {
	offered := c.Catalog.Now()
	f, ok := offered.CPUByID(c.id)
	return newCPUType(offered, f, q), requireCatalogEntry(ok, "CPU flavor", c.id)
}

// newDataCenter shows a data center with the stock that include requests.
func (c *call) newDataCenter(offered *catalog.Catalog, d catalog.DataCenter, include []string) dataCenterV2 {
	w := convert[catalog.DataCenter, dataCenterV2](d)
	if slices.Contains(include, "GPU_AVAILABILITY") {
		w.GPUAvailability = gpusIn(offered, d, c.Stock())
	}
	if slices.Contains(include, "CPU_AVAILABILITY") {
		w.CPUAvailability = cpusIn(offered, d)
	}
	return w
}

func readDataCenterInclude(q *query) []string {
	return q.enumList("include", "GPU_AVAILABILITY", "CPU_AVAILABILITY")
}

// dataCentersQuery has the filters and includes of a list of data centers.
type dataCentersQuery struct {
	include, regions, tiers, compliance []string
	globalNetwork                       *bool
}

func readDataCentersQuery(q *query) dataCentersQuery {
	return dataCentersQuery{
		include:       readDataCenterInclude(q),
		regions:       q.enumList("regions", catalog.Regions...),
		tiers:         q.enumList("networkVolumeTypes", catalog.VolumeTypes...),
		compliance:    q.enumList("compliance", catalog.Certificates...),
		globalNetwork: q.boolean("globalNetwork"),
	}
}

func (q dataCentersQuery) matches(w dataCenterV2) bool {
	return (q.regions == nil || slices.Contains(q.regions, w.Region)) &&
		containsAll(w.VolumeTypes, q.tiers) && containsAll(w.Compliance, q.compliance) &&
		(q.globalNetwork == nil || *q.globalNetwork == w.GlobalNetwork)
}

func (c *call) listDataCenters(q dataCentersQuery) ([]dataCenterV2, error) {
	out := []dataCenterV2{}
	offered := c.Catalog.Now()
	for _, d := range offered.DataCenters {
		w := c.newDataCenter(offered, d, q.include)
		if q.matches(w) {
			out = append(out, w)
		}
	}
	return out, nil
}

func containsAll(values, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(values, w) })
}

func (c *call) getDataCenter(include []string) (dataCenterV2, error) {
	offered := c.Catalog.Now()
	d, ok := offered.DataCenterByID(c.id)
	return c.newDataCenter(offered, d, include), requireCatalogEntry(ok, "data center", c.id)
}
