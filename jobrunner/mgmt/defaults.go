package mgmt

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

var (
	defaultDisk      = contract.Default[int64](contract.Of(contract.V2, "template", "disk"))
	defaultGPUCount  = contract.Default[int64](contract.Of(contract.V2, "endpoint", "gpu.count"))
	defaultVCPUCount = contract.Default[int64](contract.Of(contract.V1, "endpoint", "vcpuCount")) // version 2 requires a count
)

// defaultsOf returns a create body with the defaults of the contract.
func defaultsOf[B any]() (body B) {
	at := placeOf(reflect.TypeFor[B](), contract.Create)
	tree, err := parse(strings.NewReader(string(contract.Defaults(at.API, at.Resource))))
	if err != nil {
		panic(fmt.Sprintf("the defaults of %s: %v", at.Resource, err))
	}
	d := decoder{partial: true}
	d.decodeObject("$", tree, reflect.ValueOf(&body).Elem(), at)
	if len(d.faults) > 0 {
		panic(fmt.Sprintf("the defaults of %s: %s", at.Resource, strings.Join(d.faults, "; ")))
	}
	return body
}

func defaultVolume() store.LocalVolume {
	return store.LocalVolume{Path: *defaultsOf[templateBodyV1]().VolumeMountPath}
}

// A template created through version 1 has the defaults of version 2 for the members that version 1
// lacks.
func templateDefaultsV2() store.Template {
	t := store.Template{Volume: defaultVolume()}
	if err := defaultsOf[templateBodyV2]().apply(&t); err != nil {
		panic("the defaults of a template are invalid: " + err.Error())
	}
	return t
}

func templateDefaultsV1() store.Template {
	t := templateDefaultsV2()
	_ = defaultsOf[templateBodyV1]().apply(&t) // never fails
	return t
}

func podDefaultsV1() store.Pod {
	d := defaultsOf[podBodyV1]()
	p := store.Pod{Cloud: *d.Cloud}
	d.apply(&p)
	return p
}

func podDefaultsV2() store.Pod {
	return store.Pod{Container: store.Container{Disk: defaultDisk}, Volume: defaultVolume(), Cloud: *defaultsOf[podBodyV2]().Cloud}
}

func endpointDefaultsV1() store.Endpoint {
	e := endpointDefaultsV2()
	e.IdleTimeout = *defaultsOf[endpointBodyV1]().IdleTimeout
	return e
}

func endpointDefaultsV2() store.Endpoint {
	d := defaultsOf[endpointBodyV2]()
	return store.Endpoint{
		Type: *d.Type, Container: store.Container{Disk: defaultDisk}, WorkersMin: *d.Workers.WorkersMin, WorkersMax: *d.Workers.WorkersMax,
		IdleTimeout: *d.Workers.IdleTimeout, Scaling: d.Scaling.record(), Timeout: *d.Timeout, FlashBoot: *d.FlashBoot,
	}
}
