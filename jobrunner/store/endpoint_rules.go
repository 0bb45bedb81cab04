package store

import (
	"slices"
	"strings"
)

// checkEndpoint rejects an endpoint with contradictory members, or with references to
// objects that don't exist.
func (tx *Tx) checkEndpoint(e Endpoint) error {
	for _, check := range []func(Endpoint) error{
		checkWorkers, checkScaling, checkCompute, tx.checkExclusions, checkCUDA, tx.checkTemplate, tx.checkVolumes,
	} {
		if err := check(e); err != nil {
			return err
		}
	}
	return tx.checkRegistry(e.Container)
}

// MaxWorkers limits an endpoint's workers, because even an idle worker uses resources of
// this machine.
const MaxWorkers = 1000

func checkWorkers(e Endpoint) error {
	if e.WorkersMin > MaxWorkers || e.WorkersMax > MaxWorkers {
		return refusef("invalid number of workers: expected %d at most on this machine, got at least %d and at most %d", MaxWorkers, e.WorkersMin, e.WorkersMax)
	}
	if e.WorkersMin > e.WorkersMax {
		return refusef("at least %d workers and at most %d contradict each other", e.WorkersMin, e.WorkersMax)
	}
	return nil
}

func checkScaling(e Endpoint) error {
	if e.Type == LoadBalancer && e.Scaling.Type != RequestCount {
		return refusef("a %s endpoint scales on %s alone, not on %s", LoadBalancer, RequestCount, e.Scaling.Type)
	}
	return nil
}

func checkCompute(e Endpoint) error {
	if e.GPU != nil && len(e.CPU) > 0 {
		return Refusal("an endpoint has GPU workers or CPU workers, not both")
	}
	return nil
}

// checkExclusions rejects an excluded type that is in none of the pools. It accepts any type
// if a pool isn't in the catalog, because the pool's types are unknown then.
func (tx *Tx) checkExclusions(e Endpoint) error {
	if e.GPU == nil || len(e.GPU.ExcludedTypes) == 0 {
		return nil
	}
	known := tx.Catalog()
	var types []string
	for _, id := range e.GPU.Pools {
		pool, ok := known.PoolByID(id)
		if !ok {
			return nil
		}
		types = append(types, pool.Types...)
	}
	for _, id := range e.GPU.ExcludedTypes {
		if !slices.Contains(types, id) {
			return refusef("GPU type %q can't be excluded: it is in none of the pools %s", id, strings.Join(e.GPU.Pools, ", "))
		}
	}
	if len(known.TypesIn(e.GPU.Pools, e.GPU.ExcludedTypes)) == 0 {
		return refusef("the exclusions leave no GPU type of the pools %s", strings.Join(e.GPU.Pools, ", "))
	}
	return nil
}

func checkCUDA(e Endpoint) error {
	if e.GPU != nil && e.GPU.MinCUDAVersion != "" && len(e.GPU.AllowedCUDAVersions) > 0 {
		return Refusal("minCudaVersion and a list of allowedCudaVersions exclude each other: clear one of them")
	}
	return nil
}

func (tx *Tx) checkTemplate(e Endpoint) error {
	if e.TemplateID == "" {
		return nil
	}
	t, err := tx.Template(e.TemplateID)
	if err == nil && !t.Serverless {
		return refusef("template %q is not a serverless template", t.ID)
	}
	return err
}

func (tx *Tx) checkVolumes(e Endpoint) error {
	for _, id := range e.NetworkVolumes {
		ok, err := tx.exists(networkVolumes, id)
		if err != nil {
			return err
		}
		if !ok {
			return refusef("network volume %q does not exist", id)
		}
	}
	return nil
}
