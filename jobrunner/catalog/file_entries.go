package catalog

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// form is the syntax of ids. An id of this form fits into a path and into a comma-separated list.
type form struct {
	*regexp.Regexp
	description string
}

var (
	idForm      = form{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`), "up to 64 letters, digits and . _ -"}
	gpuIDForm   = form{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ()+_.-]{0,99}$`), "up to 100 letters, digits, spaces and ( ) + . _ -"}
	countryForm = regexp.MustCompile(`^[A-Z]{2}$`)
	cudaForm    = regexp.MustCompile(`^\d{1,4}\.\d{1,4}$`)
)

// checkID rejects a missing, invalid or duplicate id. lines maps each earlier id to its line.
func (f *file) checkID(id text, line int, kind string, form form, lines map[string]int) error {
	switch {
	case id.Missing():
		return f.errorf(line, "this %s has no id", kind)
	case !form.MatchString(id.Value):
		return f.errorf(id.Line, "invalid id %q of a %s: expected %s, beginning with a letter or digit", id.Value, kind, form.description)
	case lines[id.Value] != 0:
		return f.errorf(id.Line, "the %s %s appears twice, first in line %d", kind, id.Value, lines[id.Value])
	}
	lines[id.Value] = id.Line
	return nil
}

func replaceOrAppend[T any](list []T, element T, id func(T) string) []T {
	i := slices.IndexFunc(list, func(other T) bool { return id(other) == id(element) })
	if i < 0 {
		return append(list, element)
	}
	list[i] = element
	return list
}

func (f *file) setDataCenters(c *Catalog) error {
	lines := map[string]int{}
	for _, entry := range f.DataCenters {
		e, line := entry.Value, entry.Line
		if err := f.checkID(e.ID, line, "data center", idForm, lines); err != nil {
			return err
		}
		d, known := c.DataCenterByID(e.ID.Value)
		if !known {
			d = DataCenter{ID: e.ID.Value, Name: e.ID.Value, Region: "UNKNOWN", VolumeTypes: VolumeTypes}
		}
		setText(&d.Name, e.Name)
		if e.Country != nil && !countryForm.MatchString(e.Country.Value) {
			return f.errorf(e.Country.Line, "invalid country %q: expected two capital letters, such as FR", e.Country.Value)
		}
		setText(&d.Country, e.Country)
		if err := cmp.Or(
			f.setOneOf(&d.Region, e.Region, "region", Regions),
			f.setAllOf(&d.VolumeTypes, e.VolumeTypes, "volume type", VolumeTypes),
			f.setAllOf(&d.Compliance, e.Compliance, "certificate", Certificates),
		); err != nil {
			return err
		}
		if e.GlobalNetwork != nil {
			d.GlobalNetwork = *e.GlobalNetwork
		}
		delete(c.closedDataCenters, d.ID)
		c.DataCenters = replaceOrAppend(c.DataCenters, d, dataCenterID)
	}
	return nil
}

func setText(field *string, value *text) {
	if value != nil {
		*field = value.Value
	}
}

// setOneOf sets a field to the file's value, which must be known.
func (f *file) setOneOf(field *string, value *text, kind string, known []string) error {
	if value != nil && !slices.Contains(known, value.Value) {
		return f.unknownError(*value, kind, known)
	}
	setText(field, value)
	return nil
}

func (f *file) setAllOf(field *[]string, value *[]text, kind string, known []string) error {
	if value == nil {
		return nil
	}
	out, err := f.knownValues(*value, kind, known)
	*field = out
	return err
}

// knownValues returns the values of a list, which must be known.
func (f *file) knownValues(values []text, kind string, known []string) ([]string, error) {
	out := []string{}
	for _, element := range values {
		if !slices.Contains(known, element.Value) {
			return nil, f.unknownError(element, kind, known)
		}
		out = append(out, element.Value)
	}
	return out, nil
}

const (
	maxMemory = 1 << 20 // GB of a GPU
	maxCount  = 1 << 10 // GPUs of a machine
	maxVCPU   = 1 << 12
	maxAfter  = 10 * 365 * 24 * time.Hour
)

func (f *file) setGPUs(c *Catalog) error {
	lines := map[string]int{}
	for _, entry := range f.GPUs {
		e, line := entry.Value, entry.Line
		if err := f.checkID(e.ID, line, "GPU type", gpuIDForm, lines); err != nil {
			return err
		}
		id := e.ID.Value
		g, known := c.GPUByID(id)
		if !known {
			g = GPU{ID: id, Name: displayName(id), Manufacturer: nvidia}
		}
		setText(&g.Name, e.Name)
		if err := f.setOneOf(&g.Manufacturer, e.Manufacturer, "manufacturer", []string{nvidia, amd, "UNKNOWN"}); err != nil {
			return err
		}
		switch {
		case e.Memory == nil && !known:
			return f.errorf(e.ID.Line, "the GPU type %s is not built in, so its memory in GB is needed, such as memory: 24", id)
		case e.Memory != nil && (e.Memory.Value < 1 || e.Memory.Value > maxMemory):
			return f.errorf(e.Memory.Line, "invalid memory of %s: expected 1 to %d GB, got %d", id, maxMemory, e.Memory.Value)
		case e.Memory != nil:
			g.Memory = e.Memory.Value
		}
		offer, err := f.parseOffer(e)
		if err != nil {
			return err
		}
		c.offers[id] = offer
		delete(c.removedGPUs, id)
		c.GPUs = replaceOrAppend(c.GPUs, g, gpuID)
	}
	return nil
}

func (f *file) parseOffer(e fileGPU) (Offer, error) {
	o := Offer{MaxCount: maps.Clone(builtinOffer.MaxCount), Price: GPUPrice{Pod: map[string]USD{}, Spot: map[string]USD{}}}
	for _, p := range []struct {
		value *text
		set   func(USD)
	}{
		{e.Price.Secure, func(u USD) { o.Price.Pod[Secure] = u }},
		{e.Price.Community, func(u USD) { o.Price.Pod[Community] = u }},
		{e.Price.SecureSpot, func(u USD) { o.Price.Spot[Secure] = u }},
		{e.Price.CommunitySpot, func(u USD) { o.Price.Spot[Community] = u }},
		{e.Price.Serverless, func(u USD) { o.Price.Serverless = u }},
	} {
		if p.value == nil {
			continue
		}
		price, err := f.parsePrice(*p.value)
		if err != nil {
			return o, err
		}
		p.set(price)
	}
	for cloud, n := range map[string]*yamlfile.Number{Secure: e.MaxCount.Secure, Community: e.MaxCount.Community} {
		switch {
		case n == nil:
		case n.Value < 0 || n.Value > maxCount:
			return o, f.errorf(n.Line, "invalid max_count of %s: expected 0 to %d, got %d", e.ID.Value, maxCount, n.Value)
		case n.Value == 0:
			delete(o.MaxCount, cloud)
		default:
			o.MaxCount[cloud] = n.Value
		}
	}
	if e.CUDAVersions != nil {
		for _, v := range *e.CUDAVersions {
			if !cudaForm.MatchString(v.Value) {
				return o, f.errorf(v.Line, "invalid CUDA version %q: expected for example 12.8", v.Value)
			}
			o.CUDAVersions = append(o.CUDAVersions, v.Value)
		}
	}
	return o, nil
}

func (f *file) parsePrice(value text) (USD, error) {
	price, ok := parseDecimal(value.Value)
	if !ok {
		return 0, f.errorf(value.Line, "invalid price %q: expected dollars, such as 0.44, with at most six digits before the point and nine after it", value.Value)
	}
	return USD(price), nil
}

func (f *file) setPrice(field *USD, value *text) (err error) {
	if value != nil {
		*field, err = f.parsePrice(*value)
	}
	return err
}

func (f *file) setPools(c *Catalog) error {
	lines, poolByType := map[string]int{}, map[string]string{}
	for _, entry := range f.Pools {
		e, line := entry.Value, entry.Line
		if err := f.checkID(e.ID, line, "pool", idForm, lines); err != nil {
			return err
		}
		if len(e.Types) == 0 {
			return f.errorf(line, "the pool %s has no types: name some, or put the pool under remove", e.ID.Value)
		}
		types, err := f.knownValues(e.Types, "GPU type", contract.IDsOf(c.GPUs, gpuID))
		if err != nil {
			return err
		}
		for i, t := range types {
			if otherPool := poolByType[t]; otherPool != "" {
				return f.errorf(e.Types[i].Line, "the GPU type %s is in the pool %s already: a type is in at most one pool", t, otherPool)
			}
			poolByType[t] = e.ID.Value
		}
		c.Pools = replaceOrAppend(c.Pools, Pool{ID: e.ID.Value, Types: types}, poolID)
	}
	c.removeFromPools(func(gpu, pool string) bool { return poolByType[gpu] != "" && poolByType[gpu] != pool })
	return nil
}

func (f *file) setCPUs(c *Catalog) error {
	lines := map[string]int{}
	for _, entry := range f.CPUs {
		e, line := entry.Value, entry.Line
		if err := f.checkID(e.ID, line, "CPU flavor", idForm, lines); err != nil {
			return err
		}
		id := e.ID.Value
		flavor, known := c.CPUByID(id)
		if !known {
			flavor = CPU{ID: id, Name: id, Group: "Other", MinVCPU: 2, MaxVCPU: 32, RAMGBPerVCPU: unknownRAM}
		}
		setText(&flavor.Name, e.Name)
		setText(&flavor.Group, e.Group)
		if v := e.VCPU; v != nil {
			if v.Min.Value < 1 || v.Min.Value > v.Max.Value || v.Max.Value > maxVCPU {
				return f.errorf(line, "invalid vcpu of %s: expected min from 1 and max from min to %d, got min %d and max %d", id, maxVCPU, v.Min.Value, v.Max.Value)
			}
			flavor.MinVCPU, flavor.MaxVCPU = v.Min.Value, v.Max.Value
		}
		if e.RAMGBPerVCPU != nil {
			ram, ok := parseDecimal(e.RAMGBPerVCPU.Value)
			if !ok || ram == 0 || ram > maxVCPU*decimalScale {
				return f.errorf(e.RAMGBPerVCPU.Line, "invalid ram_gb_per_vcpu of %s: expected GB above 0 and up to %d, such as 2.5, got %q", id, maxVCPU, e.RAMGBPerVCPU.Value)
			}
			flavor.RAMGBPerVCPU = float64(ram) / decimalScale
		}
		var price CPUPrice
		if err := cmp.Or(f.setPrice(&price.Secure, e.Price.Secure), f.setPrice(&price.Serverless, e.Price.Serverless)); err != nil {
			return err
		}
		c.cpuPrices[id] = price
		c.CPUs = replaceOrAppend(c.CPUs, flavor, cpuID)
	}
	return nil
}

func (f *file) setStorageAndFees(c *Catalog) error {
	return cmp.Or(
		f.setPrice(&c.Storage.Standard, f.Storage.Standard), f.setPrice(&c.Storage.HighPerformance, f.Storage.HighPerformance),
		f.setPrice(&c.Storage.Disk, f.Storage.Disk),
		f.setPrice(&c.Fees.Serverless, f.Fees.Serverless), f.setPrice(&c.Fees.Networking, f.Fees.Networking),
	)
}

func (f *file) removeEntries(c *Catalog) error {
	if err := cmp.Or(
		removeNamed(f, &c.DataCenters, f.Remove.DataCenters, "data center", dataCenterID, c.closedDataCenters),
		removeNamed(f, &c.GPUs, f.Remove.GPUs, "GPU type", gpuID, c.removedGPUs),
		removeNamed(f, &c.CPUs, f.Remove.CPUs, "CPU flavor", cpuID, nil),
		removeNamed(f, &c.Pools, f.Remove.Pools, "pool", poolID, nil),
	); err != nil {
		return err
	}
	c.removeFromPools(func(gpu, _ string) bool { return c.removedGPUs[gpu] })
	return nil
}

// removeFromPools removes the types that leave their pools, and the pools that become empty.
func (c *Catalog) removeFromPools(leaves func(gpu, pool string) bool) {
	for i, p := range c.Pools {
		c.Pools[i].Types = slices.DeleteFunc(slices.Clone(p.Types), func(gpu string) bool { return leaves(gpu, p.ID) })
	}
	c.Pools = slices.DeleteFunc(c.Pools, func(p Pool) bool { return len(p.Types) == 0 })
}

func dataCenterID(d DataCenter) string { return d.ID }
func gpuID(g GPU) string               { return g.ID }
func cpuID(c CPU) string               { return c.ID }
func poolID(p Pool) string             { return p.ID }

// removeNamed removes the named elements, and adds their ids to removed, which may be nil.
func removeNamed[T any](f *file, list *[]T, remove []text, kind string, id func(T) string, removed map[string]bool) error {
	known := contract.IDsOf(*list, id)
	removedIDs := map[string]bool{}
	for _, r := range remove {
		switch {
		case r.Value == wildcard:
			for _, k := range known {
				removedIDs[k] = true
			}
		case !slices.Contains(known, r.Value):
			return f.unknownError(r, kind, known)
		default:
			removedIDs[r.Value] = true
		}
	}
	if removed != nil {
		maps.Copy(removed, removedIDs)
	}
	*list = slices.DeleteFunc(*list, func(element T) bool { return removedIDs[id(element)] })
	return nil
}

// stockRules returns the rules, sorted by the time from which they apply, and then in the file's order.
func (f *file) stockRules(c *Catalog) ([]stockRule, error) {
	var rules []stockRule
	for _, e := range f.Stock {
		r, err := f.parseStockRule(c, e.Value, e.Line)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	slices.SortStableFunc(rules, func(a, b stockRule) int { return cmp.Compare(a.after, b.after) })
	return rules, nil
}

func (f *file) parseStockRule(c *Catalog, e fileStock, line int) (r stockRule, err error) {
	if len(e.GPUs)+len(e.CPUs) == 0 {
		return r, f.errorf(line, `stock needs gpus or cpus: their ids, or ["*"]`)
	}
	levels := []string{}
	for _, l := range Levels {
		levels = append(levels, string(l))
	}
	if e.Level.Missing() {
		return r, f.errorf(line, "stock needs a level: one of %v", levels)
	}
	if !slices.Contains(levels, e.Level.Value) {
		return r, f.unknownError(e.Level, "level", levels)
	}
	r.level = Level(e.Level.Value)
	for _, list := range []struct {
		target *[]string
		values []text
		kind   string
		known  []string
	}{
		{&r.gpus, e.GPUs, "GPU type", append(contract.IDsOf(c.GPUs, gpuID), wildcard)},
		{&r.cpus, e.CPUs, "CPU flavor", append(contract.IDsOf(c.CPUs, cpuID), wildcard)},
		{&r.dataCenters, e.DataCenters, "data center", append(contract.IDsOf(c.DataCenters, dataCenterID), wildcard)},
		{&r.clouds, e.Clouds, "cloud", Clouds},
		{&r.products, e.Products, "product", Products},
	} {
		if *list.target, err = f.knownValues(list.values, list.kind, list.known); err != nil {
			return r, err
		}
	}
	if e.After == nil {
		return r, nil
	}
	if r.after, err = time.ParseDuration(e.After.Value); err != nil || r.after < 0 || r.after > maxAfter {
		return r, f.errorf(cmp.Or(e.After.Line, line), "invalid after %q: expected a duration from 0 to 10 years, such as 90s or 1h30m", e.After.Value)
	}
	return r, nil
}
