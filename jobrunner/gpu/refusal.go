package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// impossible returns nil, or why a request could not be satisfied even if no
// device were in use.
func impossible(want Request, devices []Device, driver Driver) error {
	if len(devices) == 0 {
		return errors.New("this machine has no GPU")
	}
	types := typesFor(want, devices)
	ofTypes := slices.DeleteFunc(slices.Clone(devices), func(d Device) bool { return !slices.Contains(types, d.TypeID) })
	if len(ofTypes) == 0 {
		return fmt.Errorf("this machine has no %s; it has %s", either(types), describeDevices(devices))
	}
	if err := driver.supports(want); err != nil {
		return err
	}
	healthy := slices.DeleteFunc(slices.Clone(ofTypes), func(d Device) bool { return d.Fault != "" })
	switch n := want.count(); {
	case mostOfOneType(want, healthy) >= n:
		return nil
	case mostOfOneType(want, ofTypes) >= n:
		return fmt.Errorf("too few healthy GPUs: %s", faults(ofTypes))
	case mostOfOneType(Request{}, ofTypes) >= n:
		return fmt.Errorf("a worker asks for %d GPUs, and a program can use one MIG instance only; this machine has %s", n, describeDevices(ofTypes))
	default:
		return fmt.Errorf("a worker asks for %d GPUs of one type, and this machine has %s", n, describeDevices(ofTypes))
	}
}

// busy explains why a request has to wait. available is free without the devices
// that are reserved for others.
func busy(want Request, devices, free, available []Device) error {
	types := typesFor(want, devices)
	usable := func(d Device) bool { return slices.Contains(types, d.TypeID) && want.fits(d) }
	usableOf := func(of []Device) []Device {
		return slices.DeleteFunc(slices.Clone(of), func(d Device) bool { return !usable(d) })
	}
	all, free, available := usableOf(devices), usableOf(free), usableOf(available)
	words := fmt.Sprintf("all of this machine's %s are in use", describeDevices(all))
	if len(all) == 1 {
		words = fmt.Sprintf("this machine's %s is in use", all[0].TypeID)
	}
	if len(free) > 0 {
		words = fmt.Sprintf("a worker asks for %d of one type, and of this machine's %s only %s free",
			want.count(), describeDevices(all), isAre(free))
	}
	if len(available) < len(free) && mostOfOneType(want, free) >= want.count() {
		words = fmt.Sprintf("what is free of this machine's %s is kept for a worker that has waited longer", describeDevices(all))
	}
	if slices.ContainsFunc(all, func(d Device) bool { return d.Fault != "" }) {
		words += "; " + faults(all)
	}
	return errors.New(words)
}

func isAre(devices []Device) string {
	if len(devices) == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%s are", describeDevices(devices))
}

func mostOfOneType(want Request, devices []Device) (most int) {
	for _, d := range devices {
		most = max(most, len(ofType(want, d.TypeID, devices)))
	}
	return most
}

// describeDevices is like "2 × NVIDIA H200 and 1 × NVIDIA L4".
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

func either(types []string) string { return enumerate(types, "or") }

func enumerate(words []string, last string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
	}
	return strings.Join(words, "")
}

// faults lists the faults of devices.
func faults(devices []Device) string {
	var out []string
	for _, d := range devices {
		if d.Fault != "" {
			out = append(out, fmt.Sprintf("GPU %d (%s, %s) can't be used: %s", d.Index, d.TypeID, d.UUID, d.Fault))
		}
	}
	return strings.Join(out, "; ")
}
