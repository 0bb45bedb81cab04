package catalog

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

const noStock = "NONE"

// offer is a GPU type or CPU flavor with its stock.
type offer struct {
	id           string
	availability string // across all data centers; "" if the answer lacks it
	dataCenters  []api.Availability
}

// CheckStock warns if none of the types that a new or changed object accepts is in stock in its
// allowed data centers.
func (c *Checks) CheckStock(ctx context.Context, to diagnostics.Check, r Request) {
	if c == nil || c.Stock == Off || c.client.Version == api.V1 || !r.ComputeKnown || !r.PlacesKnown || !r.Changes {
		return
	}
	offers, ok := c.offers(ctx, to, r)
	if !ok || len(offers) == 0 || c.unknownPlace(ctx, to, r) {
		return
	}
	allowed := r.allowedPlaces()
	var elsewhere []string
	for _, o := range offers {
		if o.availability == "" || o.inStock(allowed) {
			return
		}
		for _, d := range o.dataCenters {
			if d.Availability != noStock && !slices.Contains(elsewhere, d.ID) {
				elsewhere = append(elsewhere, d.ID)
			}
		}
	}
	where := ""
	if len(allowed) > 0 {
		where = " in " + strings.Join(allowed, ", ")
	}
	effect := "The API may refuse to create it."
	if r.Product == Serverless {
		effect = "Its workers wait for stock, and its jobs for workers."
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		effect += " There is stock in " + strings.Join(elsewhere, ", ") + "."
	}
	c.Stock.report(to, r.computeAt(), "Out of stock", "The catalog has none of %s in stock for %s%s. %s",
		strings.Join(column(offers, func(o offer) string { return o.id }), ", "), r.productName(), where, effect)
}

// offers returns the accepted GPU types or CPU flavors with their stock. ok is false if the
// catalog lacks one.
func (c *Checks) offers(ctx context.Context, to diagnostics.Check, r Request) (offers []offer, ok bool) {
	if r.GPU != nil {
		all, ok := c.gpuStock(ctx, to, r)
		types, missing := r.GPU.choose(all)
		for _, t := range types {
			offers = append(offers, offer{t.ID, t.Availability, t.DataCenters})
		}
		return offers, ok && len(missing) == 0
	}
	if len(r.CPU) == 0 {
		return nil, false
	}
	all, ok := list(ctx, c, to, url.Values{"include": {"AVAILABILITY"}, "product": {r.Product}}, c.client.FindCPUTypes)
	for _, cpu := range r.CPU {
		i := slices.IndexFunc(all, func(t api.CPUType) bool { return t.ID == cpu.ID })
		if i < 0 {
			return nil, false
		}
		offers = append(offers, offer{all[i].ID, all[i].Availability, all[i].DataCenters})
	}
	return offers, ok
}

// inStock reports whether one of the data centers has stock. An empty list means any.
func (o offer) inStock(allowed []string) bool {
	if len(allowed) == 0 {
		return o.availability != noStock
	}
	return slices.ContainsFunc(o.dataCenters, func(d api.Availability) bool { return d.Availability != noStock && slices.Contains(allowed, d.ID) })
}

// productName describes the product and its cloud for a message.
func (r Request) productName() string {
	switch r.Product {
	case Serverless:
		return "serverless workers"
	case Cluster:
		return "clusters"
	}
	return "pods of the " + r.cloud() + " cloud"
}
