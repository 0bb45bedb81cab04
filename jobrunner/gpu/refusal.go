package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// checkSatisfiable returns nil, or why a request couldn't be satisfied even if all devices were free.
func checkSatisfiable(request Request, devices []Device, driver Driver) error {
	if len(devices) == 0 {
		return errors.New("no GPU was found")
	}
	types := acceptedTypes(request, devices)
	if len(types) == 0 {
		return fmt.Errorf("the catalog has no stock of %s's GPUs: %s", placeOf(devices), describeDevices(devices))
	}
	matching := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return !slices.Contains(types, d.TypeID) })
	if len(matching) == 0 {
		return fmt.Errorf("%s has no %s; it has %s", placeOf(devices), enumerate(types, "or"), describeDevices(devices))
	}
	if err := driver.checkSupport(request); err != nil {
		return err
	}
	healthy := slices.DeleteFunc(slices.Clone(matching), func(d Device) bool { return d.Fault != "" })
	switch n := request.total(); {
	case maxOfOneType(request, healthy) >= n:
		return nil
	case maxOfOneType(request, matching) >= n:
		return fmt.Errorf("too few healthy GPUs: %s", describeFaults(matching))
	case devices[0].Node != "" && maxOfOneType(Request{}, matching) >= n:
		return fmt.Errorf("a %s asks for %d GPUs of one type, %d on the same node, and the nodes have %s, distributed differently", request.ownerKind(), n, request.count(), describeDevices(matching))
	case maxOfOneType(Request{}, matching) >= n: // if MIG instances could be combined
		return fmt.Errorf("a %s asks for %d GPUs, and a program can use one MIG instance only; this machine has %s", request.ownerKind(), n, describeDevices(matching))
	default:
		return fmt.Errorf("a %s asks for %d GPUs of one type, and %s has %s", request.ownerKind(), n, placeOf(devices), describeDevices(matching))
	}
}

func placeOf(devices []Device) string {
	if devices[0].Node != "" {
		return "the Kubernetes cluster"
	}
	return "this machine"
}

// BusyError means that a request has to wait for devices in use.
type BusyError struct {
	text  string
	Types []string // types of the devices that the request waits for
}

func (e *BusyError) Error() string { return e.text }

// busyError explains why a request waits. available are the free devices that aren't reserved for others.
func busyError(request Request, devices, free, available []Device) error {
	types := acceptedTypes(request, devices)
	usableDevices := func(devices []Device) []Device {
		return slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return !slices.Contains(types, d.TypeID) || !request.fits(d) })
	}
	all, free, available := usableDevices(devices), usableDevices(free), usableDevices(available)
	place := placeOf(devices)
	message := fmt.Sprintf("all of %s's %s are in use", place, describeDevices(all))
	if len(all) == 1 {
		message = fmt.Sprintf("%s's %s is in use", place, all[0].TypeID)
	}
	if len(free) > 0 {
		freeDevices := "1 is"
		if len(free) > 1 {
			freeDevices = describeDevices(free) + " are"
		}
		message = fmt.Sprintf("a %s asks for %d GPUs of one type, and only %s free (%s has %s)",
			request.ownerKind(), request.total(), freeDevices, place, describeDevices(all))
	}
	if len(available) < len(free) && maxOfOneType(request, free) >= request.total() {
		message = fmt.Sprintf("the free GPUs of %s's %s are reserved for a request that has waited longer", place, describeDevices(all))
	}
	if slices.ContainsFunc(all, func(d Device) bool { return d.Fault != "" }) {
		message += "; " + describeFaults(all)
	}
	return &BusyError{message, sufficientTypes(request, devices)}
}

func maxOfOneType(request Request, devices []Device) (most int) {
	for _, d := range devices {
		most = max(most, capacity(request, d.TypeID, devices))
	}
	return most
}

// capacity returns how many devices of a type a request can use: each owner's are on one node.
func capacity(request Request, typeID string, devices []Device) (n int) {
	perNode := map[string]int{}
	for _, d := range devicesOfType(request, typeID, devices) {
		if perNode[d.Node]++; perNode[d.Node]%request.count() == 0 {
			n += request.count()
		}
	}
	return n
}

// describeDevices returns a text like "2 × NVIDIA H200 and 1 × NVIDIA L4".
func describeDevices(devices []Device) string {
	var types []string
	count := map[string]int{}
	for _, d := range devices {
		if count[d.TypeID]++; count[d.TypeID] == 1 {
			types = append(types, d.TypeID)
		}
	}
	for i, t := range types {
		types[i] = fmt.Sprintf("%d × %s", count[t], t)
	}
	return enumerate(types, "and")
}

func enumerate(words []string, conjunction string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " " + conjunction + " " + words[n-1]
	}
	return strings.Join(words, "")
}

func describeFaults(devices []Device) string {
	var out []string
	for _, d := range devices {
		if d.Fault != "" {
			out = append(out, fmt.Sprintf("GPU %d (%s, %s) can't be used: %s", d.Index, d.TypeID, d.UUID, d.Fault))
		}
	}
	return strings.Join(out, "; ")
}

// checkSupport returns a human-readable error if the driver can't serve a request. A machine reports one
// CUDA version, the newest that its driver supports. This version must be one of the allowed
// versions (allowedCudaVersions of management API v2), and at least the minimum.
func (d Driver) checkSupport(request Request) error {
	allowed := func(v string) bool { return catalog.CompareCUDA(v, d.CUDA) == 0 }
	switch {
	case len(request.CUDA) == 0 && request.MinimumCUDA == "":
		return nil
	case d.CUDA == "":
		return fmt.Errorf("the CUDA version of this machine's driver is unknown, and %s asks for %s", request.requester(), cmp.Or(strings.Join(request.CUDA, ", "), "at least "+request.MinimumCUDA))
	case len(request.CUDA) > 0 && !slices.ContainsFunc(request.CUDA, allowed):
		return fmt.Errorf("this machine's driver %s reports CUDA %s, and %s allows only %s: allow %[2]s, or set a minimum instead",
			d.Version, d.CUDA, request.requester(), strings.Join(request.CUDA, ", "))
	case request.MinimumCUDA != "" && catalog.CompareCUDA(d.CUDA, request.MinimumCUDA) < 0:
		return fmt.Errorf("CUDA is too old: this machine's driver %s supports CUDA %s, and %s asks for at least %s: update the driver, or lower the minimum",
			d.Version, d.CUDA, request.requester(), request.MinimumCUDA)
	}
	return nil
}
