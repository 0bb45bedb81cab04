package catalog

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// schedule is the content of a file: the catalog, and the stock over time.
type schedule struct {
	catalog Catalog     // without stock
	stock   []stockRule // by the time when they come into force
}

// at returns the catalog at a time after the start of the deployment.
func (s *schedule) at(passed time.Duration) *Catalog {
	now := s.catalog
	n, _ := slices.BinarySearchFunc(s.stock, passed, func(r stockRule, passed time.Duration) int {
		if r.after <= passed {
			return -1
		}
		return 1
	})
	now.stock = s.stock[:n:n]
	return &now
}

// next returns when the catalog changes next, or false if it never does.
func (s *schedule) next(passed time.Duration) (at time.Duration, ok bool) {
	i := slices.IndexFunc(s.stock, func(r stockRule) bool { return r.after > passed })
	if i < 0 {
		return 0, false
	}
	return s.stock[i].after, true
}

// parse reads a catalog file. An error begins with name:line.
func parse(name string, data []byte) (*schedule, error) {
	f := file{name: name}
	if err := yamlfile.Decode(name, data, &f); err != nil {
		return nil, err
	}
	s := &schedule{catalog: Catalog{
		GPUs: slices.Clone(builtin.GPUs), Pools: slices.Clone(builtin.Pools), CPUs: slices.Clone(builtin.CPUs), DataCenters: slices.Clone(builtin.DataCenters),
		offers: map[string]Offer{}, cpuPrices: map[string]CPUPrice{}, removed: map[string]bool{}, closed: map[string]bool{},
	}}
	for _, step := range []func(*Catalog) error{f.remove, f.dataCenters, f.gpus, f.pools, f.cpus, f.storage, f.builds} {
		if err := step(&s.catalog); err != nil {
			return nil, err
		}
	}
	var err error
	s.stock, err = f.stock(&s.catalog)
	return s, err
}

func (f *file) errorf(line int, format string, args ...any) error {
	return yamlfile.At(f.name, line, format, args...)
}

// unknown returns the error about an id that the catalog doesn't have.
func (f *file) unknown(id text, kind string, known []string) error {
	return f.errorf(id.Line, "unknown %s %q%s", kind, id.Value, near.Suggest(id.Value, known))
}

// describe counts what a catalog offers.
func (c *Catalog) describe() string {
	return fmt.Sprintf("%d GPU types, %d pools, %d CPU flavors, %d data centers", len(c.GPUs), len(c.Pools), len(c.CPUs), len(c.DataCenters))
}
