package catalog

import (
	"cmp"
	"slices"
	"time"
)

// stock returns the rules by the time when they come into force. Rules with the same time stay in the
// file's order.
func (f *file) stock(c *Catalog) ([]stockRule, error) {
	var rules []stockRule
	for _, e := range f.Stock {
		r, err := f.stockRule(c, e.value, e.line)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	slices.SortStableFunc(rules, func(a, b stockRule) int { return cmp.Compare(a.after, b.after) })
	return rules, nil
}

func (f *file) stockRule(c *Catalog, e fileStock, line int) (r stockRule, err error) {
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
		return r, f.unknown(e.Level, "level", levels)
	}
	r.level = Level(e.Level.Value)
	for _, list := range []struct {
		to     *[]string
		values []text
		kind   string
		known  []string
	}{
		{&r.gpus, e.GPUs, "GPU type", append(idsOf(c.GPUs, gpuID), every)},
		{&r.cpus, e.CPUs, "CPU flavor", append(idsOf(c.CPUs, cpuID), every)},
		{&r.dataCenters, e.DataCenters, "data center", append(idsOf(c.DataCenters, dataCenterID), every)},
		{&r.clouds, e.Clouds, "cloud", Clouds},
		{&r.products, e.Products, "product", Products},
	} {
		if *list.to, err = f.allOf(list.values, list.kind, list.known); err != nil {
			return r, err
		}
	}
	if e.After == nil {
		return r, nil
	}
	if r.after, err = time.ParseDuration(e.After.Value); err != nil || r.after < 0 || r.after > maxAfter {
		return r, f.errorf(cmp.Or(e.After.Line, line), "invalid after %q: expected a duration, such as 90s or 1h30m", e.After.Value)
	}
	return r, nil
}
