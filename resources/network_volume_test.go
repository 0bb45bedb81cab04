package resources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

func TestNetworkVolume(t *testing.T) {
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		config := func(name string, size int, dataCenter string) map[string]any {
			return map[string]any{"name": name, "size": size, "data_center": dataCenter}
		}
		created := apply(t, p, volumeType, tfdrive.State{}, config("models", 20, "EU-RO-1"), "create")
		state := apply(t, p, volumeType, created, config("weights", 25, "EU-RO-1"), "update")
		expectState(t, state, map[string]any{"id": created.Get("id"), "size": 25.0})
		// A replacement may be smaller.
		state = apply(t, p, volumeType, state, config("weights", 10, "US-TX-3"), "replace")
		// A volume that was grown elsewhere isn't shrunk.
		edit(t, d.Client(t, v).NetworkVolumes, state.Get("id"), func(volume *api.NetworkVolume) { volume.Size = 12 })
		read := refresh(t, p, state)
		expectRejection(t, d, p, read, volumeType, config("weights", 10, "US-TX-3"), "size", "has 12 GB and the configuration asks for 10 GB")
		apply(t, p, volumeType, read, config("weights", 12, "US-TX-3"), "no-op")
	})
}

// Growing a volume is an update. Shrinking it is an error at size, and nothing is written.
func TestNetworkVolumeSizes(t *testing.T) {
	bounds := map[api.Version][2]int{api.V1: {0, 4000}, api.V2: {10, 4096}}
	eachVersion(t, func(t *testing.T, d *acctest.Deployment, p *tfdrive.Provider, v api.Version) {
		low, high := bounds[v][0], bounds[v][1]
		config := map[string]any{"name": "v", "size": low, "data_center": "EU-RO-1"}
		state := apply(t, p, "gpucloud_network_volume", tfdrive.State{}, config, "create")
		for _, have := range []int{low, low + 1, 100, 1000, high - 1, high} {
			if have > low {
				state = apply(t, p, "gpucloud_network_volume", state, withChanges(config, map[string]any{"size": have}), "update")
			}
			for want := have; want < have+60 && want <= high; want++ {
				action := "update"
				if want == have {
					action = "no-op"
				}
				expectPlan(t, p, state.Type, state, withChanges(config, map[string]any{"size": want}), action)
			}
			for want := max(low, have-60); want < have; want++ {
				expectRejection(t, d, p, state, state.Type, withChanges(config, map[string]any{"size": want}), "size",
					fmt.Sprintf("has %d GB and the configuration asks for %d GB", have, want))
			}
		}
		for _, size := range []int{low - 1, high + 1, -5, 5000} {
			err := p.Plan(state.Type, tfdrive.State{}, withChanges(config, map[string]any{"size": size})).Diagnostics.Err()
			must.Hold(t, err != nil && strings.HasPrefix(err.Error(), "size:"), "a new volume of", size, "GB", err, "expected an error at size")
		}
	})
}

func TestNetworkVolumeEveryAttribute(t *testing.T) {
	testEveryAttribute(t, volumeType, map[string]attributeCase{
		"name":        {values: []any{"a", "b"}, actions: []string{"update"}},
		"size":        {values: []any{20, 30}, actions: []string{"update"}},
		"data_center": {values: []any{"EU-RO-1", "US-TX-3"}, actions: []string{"replace"}},
		"type":        {version: api.V2, values: []any{"STANDARD", "HIGH_PERFORMANCE"}, actions: []string{"replace"}, removal: "no-op"},
	})
}

func TestNetworkVolumeRules(t *testing.T) {
	d, p := deploy(t)
	expectRejections(t, d, p, volumeType, map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}, []rejection{
		{map[string]any{"name": ""}, "name", `Invalid name: expected at least one character, got "".`},
		{map[string]any{"data_center": ""}, "data_center", `Invalid data_center: expected at least one character, got "".`},
		{map[string]any{"size": 4097}, "size", "Invalid size: expected 0 to 4096 GB, got 4097."},
		{map[string]any{"type": "FAST"}, "type", `Invalid type: expected "STANDARD" or "HIGH_PERFORMANCE", got "FAST".`},
	}...)
}

func TestNetworkVolumeLossWarns(t *testing.T) {
	_, p := deploy(t)
	config := map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1", "type": "STANDARD"}
	state := apply(t, p, "gpucloud_network_volume", tfdrive.State{}, config, "create")
	for attribute, value := range map[string]any{"data_center": "US-TX-3", "type": "HIGH_PERFORMANCE"} {
		planned := p.Plan(state.Type, state, withChanges(config, map[string]any{attribute: value, "size": 10}))
		must.Hold(t, planned.Action == "replace" && len(planned.Replace) == 1 && planned.Replace[0] == attribute,
			attribute, "planned to", planned.Action, "because of", planned.Replace)
		must.Contain(t, planned.Diagnostics.Warnings(), attribute+": The network volume will be replaced", state.Get("id").(string), "Endpoints and pods that use it")
	}
	must.Contain(t, p.Destroy(state).Warnings(), "The network volume will be deleted", "with everything on it")
}

// Only v2 has the tier (the attribute type). On v1, the state keeps its value.
func TestNetworkVolumeTier(t *testing.T) {
	d := acctest.Deploy(t)
	v2, v1 := drive(t, d, api.V2), drive(t, d, api.V1)
	config := map[string]any{"name": "v", "size": 10, "data_center": "EU-RO-1"}
	state := apply(t, v2, "gpucloud_network_volume", tfdrive.State{}, config, "create")
	must.Equal(t, state.Get("type"), "STANDARD", "type")
	must.Equal(t, expectEmptyPlan(t, v1, state, config).Get("type"), "STANDARD", "v1 lost the tier")
	expectRejection(t, d, v1, tfdrive.State{}, state.Type, withChanges(config, map[string]any{"type": "STANDARD"}), "type", "exists in management API v2 only")

	read := expectEmptyPlan(t, v2, apply(t, v1, "gpucloud_network_volume", tfdrive.State{}, config, "create"), config)
	apply(t, v2, state.Type, read, withChanges(config, map[string]any{"type": "STANDARD"}), "no-op")
}
