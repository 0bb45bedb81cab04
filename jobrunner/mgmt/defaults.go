package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// The defaults of a create in each version (service description, Resources and
// their fields; docs/reference/contract.md).

const (
	defaultDisk      = 50 // GB
	defaultMountPath = "/workspace"
	defaultGPUCount  = 1
	defaultVCPUCount = 2 // version 1; version 2 requires a count
)

func templateDefaultsV1() store.Template {
	return store.Template{
		Container: store.Container{Disk: defaultDisk, Ports: []string{"8888/http", "22/tcp"}},
		Volume:    store.LocalVolume{Size: 20, Path: defaultMountPath},
		Category:  "NVIDIA",
		StartSSH:  true, StartJupyter: true,
	}
}

func templateDefaultsV2() store.Template {
	return store.Template{
		Container: store.Container{Disk: defaultDisk},
		Volume:    store.LocalVolume{Path: defaultMountPath},
		Category:  "NVIDIA",
		StartSSH:  true, StartJupyter: true,
	}
}

func podDefaultsV1() store.Pod {
	t := templateDefaultsV1()
	return store.Pod{Head: store.Head{Name: "my pod"}, Container: t.Container, Volume: t.Volume, Cloud: "SECURE"}
}

func podDefaultsV2() store.Pod {
	return store.Pod{Container: store.Container{Disk: defaultDisk}, Volume: store.LocalVolume{Path: defaultMountPath}, Cloud: "SECURE"}
}

func endpointDefaultsV1() store.Endpoint { return endpointDefaults(5) }

func endpointDefaultsV2() store.Endpoint { return endpointDefaults(10) }

func endpointDefaults(idleTimeout int64) store.Endpoint {
	return store.Endpoint{
		Type:        store.Queue,
		Container:   store.Container{Disk: defaultDisk},
		WorkersMax:  3,
		IdleTimeout: idleTimeout,
		Scaling:     store.Scaling{Type: store.QueueDelay, Value: 4},
		FlashBoot:   "OFF",
	}
}
