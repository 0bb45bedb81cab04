package catalog

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
)

// CheckPlaces reports network volumes, data centers and compute without a common data center.
// On API v1 the location of compute is unknown.
func (c *Checks) CheckPlaces(ctx context.Context, check diagnostics.Check, r Request) {
	if c.DataCenters == Off || !r.PlacesKnown || !r.Changes || len(r.DataCenters)+len(r.Volumes) == 0 {
		return
	}
	at := r.VolumesAt
	if len(r.DataCenters) > 0 {
		at = r.DataCenters[0].At.ParentPath()
	}
	allowed := r.allowedPlaces()
	if len(allowed) == 0 {
		c.DataCenters.report(check, at, "No common data center", "The network volumes are in none of the data centers. %s Choose data centers that have the volumes, or volumes in these data centers.", r.describePlaces())
		return
	}
	if !r.ComputeKnown || c.client.Version == api.V1 || c.hasUnknownPlace(ctx, check, r) {
		return
	}
	offering, ids := c.placesOffering(ctx, check, r)
	if offering == nil || slices.ContainsFunc(allowed, func(d string) bool { return slices.Contains(offering, d) }) {
		return
	}
	c.DataCenters.report(check, at, "No common data center", "No data center that the configuration allows offers %s. %s The catalog offers it in: %s.",
		strings.Join(ids, ", "), r.describePlaces(), strings.Join(offering, ", "))
}

// hasUnknownPlace reports whether the request has a data center that the catalog lacks. CheckNames
// reports it already, and the catalog doesn't know what that data center offers.
func (c *Checks) hasUnknownPlace(ctx context.Context, check diagnostics.Check, r Request) bool {
	if c.Names == Off || !anyNew(r.DataCenters) {
		return false
	}
	all, ok := c.dataCenters(ctx, check)
	return ok && slices.ContainsFunc(r.DataCenters, func(ref Ref) bool { return ref.New && !slices.Contains(idsOf(all, dataCenterID), ref.ID) })
}

// CheckVolume reports a data center that has no network volumes, or none of the tier. tier may be "".
func (c *Checks) CheckVolume(ctx context.Context, check diagnostics.Check, dataCenter, tier string) {
	if c.DataCenters == Off || c.client.Version == api.V1 || dataCenter == "" {
		return
	}
	all, ok := c.dataCenters(ctx, check)
	if !ok {
		return
	}
	i := slices.IndexFunc(all, func(d api.DataCenter) bool { return d.ID == dataCenter })
	if i < 0 { // CheckNames reports it
		return
	}
	tiers := all[i].NetworkVolumeTypes
	var others []string
	for _, d := range all {
		if tier == "" && len(d.NetworkVolumeTypes) > 0 || slices.Contains(d.NetworkVolumeTypes, tier) {
			others = append(others, d.ID)
		}
	}
	switch {
	case len(tiers) == 0:
		c.DataCenters.report(check, path.Root("data_center"), "No network volumes in the data center", "The data center %s has no network volumes. Data centers with them: %s.", dataCenter, orNone(others))
	case tier != "" && !slices.Contains(tiers, tier):
		c.DataCenters.report(check, path.Root("type"), "No such storage tier in the data center", "The data center %s has network volumes of type %s, not %s. Data centers with %[3]s: %s.",
			dataCenter, strings.Join(tiers, ", "), tier, orNone(others))
	}
}

// allowedPlaces returns the data centers that the volumes and the configuration allow. It is empty if
// neither restricts them, or if they have none in common.
func (r Request) allowedPlaces() (ids []string) {
	for _, d := range r.DataCenters {
		if len(r.Volumes) == 0 || slices.ContainsFunc(r.Volumes, func(v Volume) bool { return v.DataCenter == d.ID }) {
			ids = append(ids, d.ID)
		}
	}
	if len(r.DataCenters) == 0 {
		for _, v := range r.Volumes {
			ids = append(ids, v.DataCenter)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (r Request) describePlaces() string {
	var parts []string
	if len(r.DataCenters) > 0 {
		parts = append(parts, "Data centers: "+strings.Join(idsOf(r.DataCenters, func(d Ref) string { return d.ID }), ", ")+".")
	}
	if len(r.Volumes) > 0 {
		parts = append(parts, "Network volumes: "+strings.Join(idsOf(r.Volumes, func(v Volume) string { return fmt.Sprintf("%s in %s", v.ID, v.DataCenter) }), ", ")+".")
	}
	return strings.Join(parts, " ")
}

// placesOffering returns the data centers that offer the requested compute, in stock or not, and the
// ids of that compute. It returns nil if the catalog doesn't know where all the compute is offered.
func (c *Checks) placesOffering(ctx context.Context, check diagnostics.Check, r Request) (places, ids []string) {
	dataCenters, ok := c.dataCenters(ctx, check)
	if !ok {
		return nil, nil
	}
	offers, ok := c.offers(ctx, check, r)
	if !ok {
		return nil, nil
	}
	for _, o := range offers {
		offering := idsOf(o.dataCenters, func(a api.Availability) string { return a.ID })
		for _, d := range dataCenters {
			if slices.ContainsFunc(slices.Concat(d.GPUAvailability, d.CPUAvailability), func(a api.Availability) bool { return a.ID == o.id }) {
				offering = append(offering, d.ID)
			}
		}
		if len(offering) == 0 {
			return nil, nil
		}
		places, ids = append(places, offering...), append(ids, o.id)
	}
	slices.Sort(places)
	return slices.Compact(places), ids
}

func orNone(ids []string) string { return cmp.Or(strings.Join(ids, ", "), "none") }

const noStock = "NONE"

// offer is a GPU type or CPU flavor with its stock.
type offer struct {
	id           string
	availability string // across all data centers; "" if the answer lacks it
	dataCenters  []api.Availability
}

// CheckStock reports a new or changed object if none of its accepted types is in stock in its data centers.
func (c *Checks) CheckStock(ctx context.Context, check diagnostics.Check, r Request) {
	if c.Stock == Off || c.client.Version == api.V1 || !r.ComputeKnown || !r.PlacesKnown || !r.Changes {
		return
	}
	offers, ok := c.offers(ctx, check, r)
	if !ok || len(offers) == 0 || c.hasUnknownPlace(ctx, check, r) {
		return
	}
	allowed := r.allowedPlaces()
	var stocked []string
	for _, o := range offers {
		if o.availability == "" || o.inStock(allowed) {
			return
		}
		for _, d := range o.dataCenters {
			if d.Availability != noStock && !slices.Contains(stocked, d.ID) {
				stocked = append(stocked, d.ID)
			}
		}
	}
	location := ""
	if len(allowed) > 0 {
		location = " in " + strings.Join(allowed, ", ")
	}
	effect := "The API may refuse to create it."
	if r.Product == Serverless {
		effect = "Its workers wait for stock, and its jobs for workers."
	}
	if len(stocked) > 0 {
		slices.Sort(stocked)
		effect += " There is stock in " + strings.Join(stocked, ", ") + "."
	}
	c.Stock.report(check, r.computeAt(), "Out of stock", "The catalog shows no stock of %s for %s%s. %s",
		strings.Join(idsOf(offers, func(o offer) string { return o.id }), ", "), r.productName(), location, effect)
}

// offers returns the accepted types or flavors with their stock, or false if the catalog lacks one.
func (c *Checks) offers(ctx context.Context, check diagnostics.Check, r Request) (offers []offer, ok bool) {
	if r.GPU != nil {
		all, ok := c.gpuStock(ctx, check, r)
		types, missing := r.GPU.choose(all)
		for _, t := range types {
			offers = append(offers, offer{t.ID, t.Availability, t.DataCenters})
		}
		return offers, ok && len(missing) == 0
	}
	if len(r.CPU) == 0 {
		return nil, false
	}
	all, ok := list(ctx, c, check, url.Values{"include": {"AVAILABILITY"}, "product": {r.Product}}, c.client.CPUTypes)
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
