package mgmt

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
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

// availabilityV2 is the availability of a GPU or CPU type in one data center. It names the data center in
// an answer about the type, and the type in an answer about the data center.
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
		count:        q.integer("count", 1, positive),
		countries:    q.list("countryCodes", matching(countryPattern, "a country code such as FR")),
		cudaVersions: q.list("cudaVersions", matching(pattern(contract.CUDAVersion), contract.CUDAVersion.Words)),
	}
	out.availability, out.products = q.readAvailability(catalog.Products, "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion")
	out.cloud = cmp.Or(q.value("cloud", oneOf(catalog.Clouds...)), catalog.Secure)
	out.minCUDA = q.value("minCudaVersion", matching(minCUDAPattern, "major or major.minor"))
	q.refuseIf(q.has("cudaVersions") && q.has("minCudaVersion"), "cudaVersions and minCudaVersion exclude each other: set one of them")
	return out
}

func (q gpuQuery) accepts(version string) bool {
	if len(q.cudaVersions) > 0 {
		return slices.Contains(q.cudaVersions, version)
	}
	return q.minCUDA == "" || catalog.CompareCUDA(version, q.minCUDA) >= 0
}

func newGPUType(cat *catalog.Catalog, g catalog.GPU, stock catalog.Stock, q gpuQuery) gpuTypeV2 {
	offer := cat.OfferOf(g.ID)
	secure, community := offer.MaxCount[catalog.Secure], offer.MaxCount[catalog.Community]
	w := gpuTypeV2{
		Pool: nilIfEmpty(cat.PoolOf(g.ID)), Secure: secure > 0, Community: community > 0,
		Price:    gpuPriceV2{Secure: offer.Price.Pod[catalog.Secure], Community: offer.Price.Pod[catalog.Community]},
		MaxCount: maxCountV2{secure, community},
	}
	copyFields(&w, g)
	if w.Pool != nil {
		w.Price.Serverless = &offer.Price.Serverless
	}
	if q.availability {
		q.addAvailability(&w, cat, offer, stock)
	}
	return w
}

func (c *call) listGPUTypes(q gpuQuery) ([]gpuTypeV2, error) {
	cat, stock := c.Catalog.Current(), c.Stock()
	out := []gpuTypeV2{}
	for _, g := range cat.GPUsWith(stock) {
		w := newGPUType(cat, g, stock[g.ID], q)
		if len(q.countries) == 0 || len(w.DataCenters) > 0 {
			out = append(out, w)
		}
	}
	return out, nil
}

func (c *call) getGPUType(q gpuQuery) (w gpuTypeV2, err error) {
	cat, stock := c.Catalog.Current(), c.Stock()
	gpus := cat.GPUsWith(stock)
	if i := slices.IndexFunc(gpus, func(g catalog.GPU) bool { return g.ID == c.id }); i >= 0 {
		return newGPUType(cat, gpus[i], stock[c.id], q), nil
	}
	return w, requireCatalogEntry(false, "GPU type", c.id)
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
	vcpus        int64 // 0: any
}

func readCPUQuery(q *query) (out cpuQuery) {
	out.vcpus = q.integer("vcpuCount", 0, integers("a power of two of at least 2", &openapi.Schema{Minimum: new(2.0), MultipleOf: new(2.0)},
		func(n int64) bool { return n >= 2 && n&(n-1) == 0 }))
	out.availability, out.products = q.readAvailability([]string{catalog.Pod, catalog.Serverless}, "vcpuCount")
	return out
}

func newCPUType(cat *catalog.Catalog, f catalog.CPU, q cpuQuery) cpuTypeV2 {
	price := cat.CPUPriceOf(f.ID)
	w := cpuTypeV2{VCPU: vcpuRangeV2{f.MinVCPU, f.MaxVCPU}, Price: cpuPriceV2{price.Secure, price.Serverless}}
	copyFields(&w, f)
	if q.availability {
		q.addAvailability(&w, cat, f)
	}
	return w
}

func (c *call) listCPUTypes(q cpuQuery) ([]cpuTypeV2, error) {
	cat := c.Catalog.Current()
	return convertAll(cat.CPUs, func(f catalog.CPU) cpuTypeV2 { return newCPUType(cat, f, q) }), nil
}

func (c *call) getCPUType(q cpuQuery) (cpuTypeV2, error) {
	cat := c.Catalog.Current()
	f, ok := cat.CPUByID(c.id)
	return newCPUType(cat, f, q), requireCatalogEntry(ok, "CPU flavor", c.id)
}

// newDataCenter shows a data center. include has the kinds of stock to show with it.
func (c *call) newDataCenter(cat *catalog.Catalog, d catalog.DataCenter, include []string) dataCenterV2 {
	w := convert[catalog.DataCenter, dataCenterV2](d)
	if slices.Contains(include, "GPU_AVAILABILITY") {
		w.GPUAvailability = gpusIn(cat, d, c.Stock())
	}
	if slices.Contains(include, "CPU_AVAILABILITY") {
		w.CPUAvailability = convertAll(cat.CPUs, func(f catalog.CPU) availabilityV2 {
			level, _ := levelIn(cat, catalog.Placement{CPU: f.ID, DataCenter: d.ID}, []string{catalog.Pod}, true)
			return availabilityV2{f.ID, f.Name, level}
		})
	}
	return w
}

func readDataCenterInclude(q *query) []string {
	return q.list("include", oneOf("GPU_AVAILABILITY", "CPU_AVAILABILITY"))
}

type dataCentersQuery struct {
	include, regions, volumeTypes, compliance []string
	globalNetwork                             *bool
}

func readDataCentersQuery(q *query) dataCentersQuery {
	return dataCentersQuery{
		include:       readDataCenterInclude(q),
		regions:       q.list("regions", oneOf(catalog.Regions...)),
		volumeTypes:   q.list("networkVolumeTypes", oneOf(catalog.VolumeTypes...)),
		compliance:    q.list("compliance", oneOf(catalog.Certificates...)),
		globalNetwork: q.boolean("globalNetwork"),
	}
}

func (q dataCentersQuery) matches(w dataCenterV2) bool {
	return (q.regions == nil || slices.Contains(q.regions, w.Region)) &&
		containsAll(w.VolumeTypes, q.volumeTypes) && containsAll(w.Compliance, q.compliance) &&
		(q.globalNetwork == nil || *q.globalNetwork == w.GlobalNetwork)
}

func (c *call) listDataCenters(q dataCentersQuery) ([]dataCenterV2, error) {
	out := []dataCenterV2{}
	cat := c.Catalog.Current()
	for _, d := range cat.DataCenters {
		w := c.newDataCenter(cat, d, q.include)
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
	cat := c.Catalog.Current()
	d, ok := cat.DataCenterByID(c.id)
	return c.newDataCenter(cat, d, include), requireCatalogEntry(ok, "data center", c.id)
}

// levelIn returns the lowest stock of the products in a data center, and whether the catalog file states
// the stock of any of them. A stock that the file doesn't state is High if onMachine is true, otherwise None.
func levelIn(cat *catalog.Catalog, p catalog.Placement, products []string, onMachine bool) (level catalog.Level, stated bool) {
	level = catalog.High
	for _, product := range products {
		p.Product = product
		stock, known := cat.LevelOf(p)
		if !known && onMachine {
			stock = catalog.High
		}
		stated = stated || known
		if stock.Less(level) {
			level = stock
		}
	}
	return level, stated
}

// addAvailability shows the data centers in which a GPU type is in stock. The deployment's machine stands for
// all data centers, so these are all, unless the catalog file limits the stock.
func (q gpuQuery) addAvailability(w *gpuTypeV2, cat *catalog.Catalog, offer catalog.Offer, stock catalog.Stock) {
	filtersCUDA := len(q.cudaVersions) > 0 || q.minCUDA != ""
	versions := stock.CUDAVersions
	if len(versions) == 0 {
		versions = offer.CUDAVersions
	}
	versions = slices.DeleteFunc(slices.Clone(versions), func(v string) bool { return !q.accepts(v) })
	fits := q.count <= offer.MaxCount[q.cloud]
	forPods := slices.ContainsFunc(q.products, func(p string) bool { return p != catalog.Serverless }) // pods and clusters get at most maxCount GPUs
	highest, inStock := catalog.None, false
	for _, d := range cat.DataCenters {
		level, stated := levelIn(cat, catalog.Placement{GPU: w.ID, DataCenter: d.ID, Cloud: q.cloud}, q.products, stock.Count >= q.count)
		if (stated || forPods) && !fits {
			level = catalog.None
		}
		inStock = inStock || level != catalog.None
		if level == catalog.None || filtersCUDA && len(versions) == 0 || len(q.countries) > 0 && !slices.Contains(q.countries, d.Country) {
			continue
		}
		w.DataCenters = append(w.DataCenters, availabilityV2{d.ID, d.Name, level})
		if highest.Less(level) {
			highest = level
		}
	}
	w.Availability = highest
	for _, v := range versions {
		w.CUDAVersions = append(w.CUDAVersions, cudaAvailableV2{v, inStock})
	}
}

// addAvailability shows the data centers in which a CPU flavor is in stock: all, unless the catalog file limits it.
func (q cpuQuery) addAvailability(w *cpuTypeV2, cat *catalog.Catalog, f catalog.CPU) {
	w.Availability = catalog.None
	if q.vcpus != 0 && (q.vcpus < f.MinVCPU || q.vcpus > f.MaxVCPU) {
		return
	}
	for _, d := range cat.DataCenters {
		level, _ := levelIn(cat, catalog.Placement{CPU: f.ID, DataCenter: d.ID}, q.products, true)
		if level == catalog.None {
			continue
		}
		w.DataCenters = append(w.DataCenters, availabilityV2{d.ID, d.Name, level})
		if w.Availability.Less(level) {
			w.Availability = level
		}
	}
}

// gpusIn returns the stock of a data center for pods. It includes types that are sold out, and omits
// types that the data center doesn't offer.
func gpusIn(cat *catalog.Catalog, d catalog.DataCenter, stock map[string]catalog.Stock) (out []availabilityV2) {
	for _, g := range cat.GPUsWith(stock) {
		level, stated := levelIn(cat, catalog.Placement{GPU: g.ID, DataCenter: d.ID}, []string{catalog.Pod}, stock[g.ID].Count > 0)
		if stated || level != catalog.None {
			out = append(out, availabilityV2{g.ID, g.Name, level})
		}
	}
	return out
}

// maxCatalogTemplates limits the list, which has no pages.
const maxCatalogTemplates = 100

func readTemplateSource(q *query) string {
	return q.value("source", oneOf("official", "verified", "community"))
}

// listCatalogTemplates lists this program's official templates or the users' public templates. The list of
// verified templates is empty. Only a template's owner may see its registry auth, so the list omits it.
func (c *call) listCatalogTemplates(source string) ([]templateV2, error) {
	var all []store.Template
	var err error
	switch source {
	case "", "official":
		all = store.OfficialTemplates()
	case "community":
		all, err = store.List[store.Template](c.ctx(), c.Store)
	}
	out := []templateV2{}
	for _, t := range all {
		if t.Public && len(out) < maxCatalogTemplates {
			t.Registry = ""
			out = append(out, newTemplateV2(t))
		}
	}
	return out, err
}
