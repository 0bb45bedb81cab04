package catalog

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

type text = yamlfile.Text

// file is a catalog file (docs/reference/catalog.md). Entries that it omits stay as built in.
type file struct {
	Remove      removals                         `yaml:"remove"`
	DataCenters []yamlfile.Entry[fileDataCenter] `yaml:"data_centers"`
	GPUs        []yamlfile.Entry[fileGPU]        `yaml:"gpus"`
	Pools       []yamlfile.Entry[filePool]       `yaml:"pools"`
	CPUs        []yamlfile.Entry[fileCPU]        `yaml:"cpus"`
	Storage     struct {
		Standard        *text `yaml:"standard"`
		HighPerformance *text `yaml:"high_performance"`
		Disk            *text `yaml:"disk"`
	} `yaml:"storage"` // dollars for a GB and a month of 730 hours
	Fees struct {
		Serverless *text `yaml:"serverless"`
		Networking *text `yaml:"networking"`
	} `yaml:"fees"` // dollars for an hour
	Stock  []yamlfile.Entry[fileStock] `yaml:"stock"`
	Builds []yamlfile.Entry[fileBuild] `yaml:"builds"`

	name string
}

// removals names entries to remove; * stands for all built-in ones.
type removals struct {
	DataCenters []text `yaml:"data_centers"`
	GPUs        []text `yaml:"gpus"`
	Pools       []text `yaml:"pools"`
	CPUs        []text `yaml:"cpus"`
}

type fileDataCenter struct {
	ID            text    `yaml:"id"`
	Name          *text   `yaml:"name"`
	Region        *text   `yaml:"region"`
	Country       *text   `yaml:"country"`
	VolumeTypes   *[]text `yaml:"volume_types"`
	Compliance    *[]text `yaml:"compliance"`
	GlobalNetwork *bool   `yaml:"global_network"`
}

type fileGPU struct {
	ID           text             `yaml:"id"`
	Name         *text            `yaml:"name"`
	Manufacturer *text            `yaml:"manufacturer"`
	Memory       *yamlfile.Number `yaml:"memory"` // GB
	Price        struct {
		Secure        *text `yaml:"secure"`
		Community     *text `yaml:"community"`
		SecureSpot    *text `yaml:"secure_spot"`
		CommunitySpot *text `yaml:"community_spot"`
		Serverless    *text `yaml:"serverless"`
	} `yaml:"price"` // dollars for an hour of one GPU
	MaxCount struct {
		Secure    *yamlfile.Number `yaml:"secure"`
		Community *yamlfile.Number `yaml:"community"`
	} `yaml:"max_count"` // GPUs of a machine, or 0 if a cloud doesn't offer the type
	CUDAVersions *[]text `yaml:"cuda_versions"`
}

type filePool struct {
	ID    text   `yaml:"id"`
	Types []text `yaml:"types"`
}

type fileCPU struct {
	ID    text  `yaml:"id"`
	Name  *text `yaml:"name"`
	Group *text `yaml:"group"`
	VCPU  *struct {
		Min yamlfile.Number `yaml:"min"`
		Max yamlfile.Number `yaml:"max"`
	} `yaml:"vcpu"`
	RAMGBPerVCPU *text `yaml:"ram_gb_per_vcpu"`
	Price        struct {
		Secure     *text `yaml:"secure"`
		Serverless *text `yaml:"serverless"`
	} `yaml:"price"` // dollars for an hour of one vCPU
}

type fileStock struct {
	GPUs        []text `yaml:"gpus"`
	CPUs        []text `yaml:"cpus"`
	DataCenters []text `yaml:"data_centers"`
	Clouds      []text `yaml:"clouds"`
	Products    []text `yaml:"products"`
	Level       text   `yaml:"level"`
	After       *text  `yaml:"after"`
}

// schedule is the content of a file: the catalog, and the stock over time.
type schedule struct {
	catalog Catalog     // without stock
	stock   []stockRule // ordered by the time when they come into force
}

// catalogAfter returns the catalog at a time after the start of the deployment.
func (s *schedule) catalogAfter(elapsed time.Duration) *Catalog {
	c := s.catalog
	n, _ := slices.BinarySearchFunc(s.stock, elapsed, func(r stockRule, elapsed time.Duration) int {
		if r.after <= elapsed {
			return -1
		}
		return 1
	})
	c.stock = s.stock[:n:n]
	return &c
}

// nextChange returns when the catalog changes next, or false if it never does.
func (s *schedule) nextChange(elapsed time.Duration) (at time.Duration, ok bool) {
	i := slices.IndexFunc(s.stock, func(r stockRule) bool { return r.after > elapsed })
	if i < 0 {
		return 0, false
	}
	return s.stock[i].after, true
}

func parse(name string, data []byte) (*schedule, error) {
	f := file{name: name}
	if err := yamlfile.Decode(name, data, &f); err != nil {
		return nil, err
	}
	s := &schedule{catalog: Catalog{
		GPUs: slices.Clone(builtin.GPUs), Pools: slices.Clone(builtin.Pools), CPUs: slices.Clone(builtin.CPUs), DataCenters: slices.Clone(builtin.DataCenters),
		builds: map[string][]Build{}, offers: map[string]Offer{}, cpuPrices: map[string]CPUPrice{}, removedGPUs: map[string]bool{}, closedDataCenters: map[string]bool{},
	}}
	for _, step := range []func(*Catalog) error{f.removeEntries, f.setDataCenters, f.setGPUs, f.setPools, f.setCPUs, f.setStorageAndFees, f.setBuilds} {
		if err := step(&s.catalog); err != nil {
			return nil, err
		}
	}
	var err error
	s.stock, err = f.stockRules(&s.catalog)
	return s, err
}

func (f *file) errorf(line int, format string, args ...any) error {
	return yamlfile.ErrorAt(f.name, line, format, args...)
}

func (f *file) unknownError(id text, kind string, known []string) error {
	return f.errorf(id.Line, "unknown %s %q%s", kind, id.Value, near.Suggest(id.Value, known))
}

func (c *Catalog) describe() string {
	return fmt.Sprintf("%d GPU types, %d pools, %d CPU flavors, %d data centers", len(c.GPUs), len(c.Pools), len(c.CPUs), len(c.DataCenters))
}

// Build is a build of an endpoint's image from its repository, as a catalog file lists it.
type Build struct {
	ID, Status, CommitHash, CommitMessage, Branch, ImageName, Error string
	CommitDate, StartedAt, CompletedAt                              *time.Time
}

var buildStatuses = []string{"PENDING", "BUILDING", "UPLOADING", "TESTING", "COMPLETED", "FAILED", "CANCELLED", "TEST_FAILED"}

// BuildsOf returns the builds for this endpoint name, then the builds for every endpoint, in the file's order.
func (c *Catalog) BuildsOf(endpoint string) []Build {
	return slices.Concat(c.builds[endpoint], c.builds[wildcard])
}

type fileBuild struct {
	Endpoint      text  `yaml:"endpoint"` // name of the endpoint, or *
	ID            text  `yaml:"id"`
	Status        text  `yaml:"status"`
	CommitHash    text  `yaml:"commit_hash"`
	CommitMessage text  `yaml:"commit_message"`
	Branch        text  `yaml:"branch"`
	CommitDate    *text `yaml:"commit_date"`
	ImageName     text  `yaml:"image_name"`
	StartedAt     *text `yaml:"started_at"`
	CompletedAt   *text `yaml:"completed_at"`
	Error         text  `yaml:"error"`
}

// setBuilds reads the file's builds, in the order in which the API lists them.
func (f *file) setBuilds(c *Catalog) error {
	lines := map[string]int{}
	for _, entry := range f.Builds {
		e := entry.Value
		if e.Endpoint.Missing() {
			return f.errorf(entry.Line, "this build has no endpoint: expected the name of an endpoint")
		}
		if err := f.checkID(e.ID, entry.Line, "build", idForm, lines); err != nil {
			return err
		}
		if e.Status.Missing() {
			return f.errorf(entry.Line, "the build %s has no status: expected one of %v", e.ID.Value, buildStatuses)
		}
		if !slices.Contains(buildStatuses, e.Status.Value) {
			return f.unknownError(e.Status, "status of a build", buildStatuses)
		}
		b := Build{
			ID: e.ID.Value, Status: e.Status.Value, CommitHash: e.CommitHash.Value, CommitMessage: e.CommitMessage.Value,
			Branch: e.Branch.Value, ImageName: e.ImageName.Value, Error: e.Error.Value,
		}
		for field, value := range map[**time.Time]*text{&b.CommitDate: e.CommitDate, &b.StartedAt: e.StartedAt, &b.CompletedAt: e.CompletedAt} {
			if value == nil {
				continue
			}
			at, err := time.Parse(time.RFC3339, value.Value)
			if err != nil {
				return f.errorf(value.Line, "invalid time %q: expected one such as 2026-11-24T13:00:00Z", value.Value)
			}
			*field = &at
		}
		c.builds[e.Endpoint.Value] = append(c.builds[e.Endpoint.Value], b)
	}
	return nil
}
