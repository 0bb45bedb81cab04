package store

import (
	"errors"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// checkPod rejects a pod with contradictory members, or with references to objects that
// don't exist.
func (tx *Tx) checkPod(p Pod) error {
	for _, check := range []func(Pod) error{checkPodCompute, tx.checkPodGPU, tx.checkPodCPU, checkPodStorage, tx.checkPodNetwork, tx.checkPodVolume} {
		if err := check(p); err != nil {
			return err
		}
	}
	return tx.checkRegistry(p.Container)
}

func checkPodCompute(p Pod) error {
	if (p.GPU == nil) == (p.CPU == nil) {
		return Refusal("a pod has either GPUs or CPUs: expected exactly one of gpu and cpu")
	}
	return nil
}

// checkPodGPU checks against the catalog's largest machine, not against this one. If this
// machine can't run a pod, the pod waits.
func (tx *Tx) checkPodGPU(p Pod) error {
	if p.GPU == nil {
		return nil
	}
	most := int64(0)
	for _, id := range p.GPU.TypeIDs {
		most = max(most, tx.Catalog().OfferOf(id).MaxCount[p.Cloud])
	}
	if len(p.GPU.TypeIDs) == 0 {
		most = catalog.MaxGPUs
	}
	switch {
	case most == 0:
		return refusef("the %s cloud does not offer %s", p.Cloud, strings.Join(p.GPU.TypeIDs, ", "))
	case p.GPU.Count > most:
		return refusef("invalid number of GPUs of a pod: expected %d at most, got %d", most, p.GPU.Count)
	}
	if p.GPU.MinCUDAVersion != "" && len(p.GPU.AllowedCUDAVersions) > 0 {
		return Refusal("minCudaVersion and a list of allowedCudaVersions exclude each other: clear one of them")
	}
	return nil
}

// checkPodCPU checks the count if the catalog has the flavor.
func (tx *Tx) checkPodCPU(p Pod) error {
	if p.CPU == nil {
		return nil
	}
	for _, id := range p.CPU.FlavorIDs {
		if flavor, ok := tx.Catalog().CPUByID(id); ok && (p.CPU.VCPUCount < flavor.MinVCPU || p.CPU.VCPUCount > flavor.MaxVCPU) {
			return refusef("invalid vcpuCount of a pod: the CPU flavor %s has %d to %d vCPUs, got %d", id, flavor.MinVCPU, flavor.MaxVCPU, p.CPU.VCPUCount)
		}
	}
	return nil
}

func checkPodStorage(p Pod) error {
	switch {
	case p.Volume.Size > 0 && p.NetworkVolume != "":
		return Refusal("a pod has a persistent mount or a network mount, not both")
	case p.Volume.Size > 0 && p.CPU != nil:
		return Refusal("a CPU pod has no persistent mount: give it a network mount")
	}
	return nil
}

// checkPodNetwork restricts the global network to pods with NVIDIA GPUs.
func (tx *Tx) checkPodNetwork(p Pod) error {
	if !p.GlobalNetworking {
		return nil
	}
	if p.GPU == nil {
		return Refusal("globalNetworking needs an NVIDIA GPU, and this is a CPU pod")
	}
	for _, id := range p.GPU.TypeIDs {
		if gpu, ok := tx.Catalog().GPUByID(id); ok && gpu.Manufacturer != "NVIDIA" {
			return refusef("globalNetworking needs an NVIDIA GPU, and %s is none", id)
		}
	}
	return nil
}

// checkPodVolume requires that the network volume exists in a data center of the pod.
func (tx *Tx) checkPodVolume(p Pod) error {
	if p.NetworkVolume == "" {
		return nil
	}
	var v NetworkVolume
	err := load(tx.tx, &v, p.NetworkVolume)
	switch {
	case errors.Is(err, ErrNotFound):
		return refusef("network volume %q does not exist", p.NetworkVolume)
	case err != nil:
		return err
	}
	if len(p.DataCenterIDs) > 0 && !slices.Contains(p.DataCenterIDs, v.DataCenter) {
		return refusef("network volume %q is in the data center %s, and the pod may be in %s alone", v.ID, v.DataCenter, strings.Join(p.DataCenterIDs, ", "))
	}
	return nil
}

// volumeDataCenter returns the data center of a network volume. It returns "" for the id "".
func (tx *Tx) volumeDataCenter(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	var v NetworkVolume
	err := load(tx.tx, &v, id)
	return v.DataCenter, err
}

// placePod returns the data center of a new pod. If the catalog's file restricts stock, it is
// one with stock, or the pod is rejected. Otherwise it is the network volume's data center
// or the first requested one, because this machine represents all of them.
func (tx *Tx) placePod(p Pod) (dataCenter string, err error) {
	volume, err := tx.volumeDataCenter(p.NetworkVolume)
	if err != nil {
		return "", err
	}
	allowed := p.DataCenterIDs
	if volume != "" {
		allowed = []string{volume}
	}
	offered := tx.Catalog()
	if !offered.Restricts() {
		if len(allowed) == 0 {
			return "", nil
		}
		return allowed[0], nil
	}
	var placings []catalog.Placing
	var wanted []string // empty: any
	if p.GPU != nil {
		wanted = p.GPU.TypeIDs
		types := wanted
		for _, g := range offered.GPUs {
			if len(wanted) == 0 {
				types = append(types, g.ID)
			}
		}
		for _, id := range types {
			placings = append(placings, catalog.Placing{GPU: id})
		}
	} else if p.CPU != nil {
		wanted = p.CPU.FlavorIDs
		for _, id := range wanted {
			placings = append(placings, catalog.Placing{CPU: id})
		}
	}
	for _, placing := range placings {
		placing.Cloud, placing.Product = p.Cloud, catalog.Pod
		if p.Cluster != nil {
			placing.Product = catalog.Cluster
		}
		// A type without a stated stock is limited by this machine later.
		if dataCenter := offered.Place(placing, allowed, true); dataCenter != "" {
			return dataCenter, nil
		}
	}
	return "", refusef("%s (%s cloud): try other data centers or another type", catalog.NoStock(wanted, "any GPU", allowed), p.Cloud)
}
