package resources_test

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

func TestPlanCost(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	workers := func(most any) map[string]any { return map[string]any{"workers": map[string]any{"max": most}} }
	ceiling := func(usd any) map[string]any { return map[string]any{"max_hourly_cost": usd} }
	big := gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "count": 2})
	findings := []finding{
		{endpointType, labEndpoint(withChanges(big, workers(3))), "gpu.pools",
			"Above the cost ceiling: gpu.pools: It may cost 19.999999998 USD an hour, and max_hourly_cost is 6 USD (max_hourly_cost of the provider block). Computed for LAB Big: 3.333333333 USD (serverless price of a GPU) × 2 (gpu.count) × 3 (workers.max). ", false},
		{endpointType, labEndpoint(withChanges(gpuSettings(map[string]any{"pools": []any{"LAB_48", "LAB_96"}}), workers(2))), "gpu.pools", "LAB Big, the most expensive of 3 possible choices: 3.333333333", false},
		{endpointType, labEndpoint(withChanges(gpuSettings(map[string]any{"type_ids": []any{"LAB Small"}}), ceiling(1.4))), "max_hourly_cost", "1.5 USD an hour, and max_hourly_cost is 1.4 USD (max_hourly_cost of this resource)", false}, // workers.max is 3
		{endpointType, labEndpoint(withChanges(cpuSettings("cpuX", 16), ceiling(1.4))), "max_hourly_cost", "Computed for cpuX with 16 vCPUs, the most expensive of 2 possible choices: 0.031 USD (serverless price of a vCPU) × 16 (cpu[1].vcpu_count) × 3 (workers.max).", false},
		{podType, labPod(gpuSettings(map[string]any{"id": "LAB Big", "count": 3})), "gpu.id", "6.3 USD an hour, and max_hourly_cost is 6 USD (max_hourly_cost of the provider block). Computed for LAB Big: 2.1 USD (secure price of a GPU) × 3 (gpu.count). Ask for less", false},
		{podType, labPod(withChanges(gpuSettings(map[string]any{"id": "LAB Small"}), map[string]any{"cloud": "COMMUNITY"}, ceiling(0.05))), "max_hourly_cost", "0.1 USD (community price of a GPU)", false},
		{podType, labPod(withChanges(podCPU("cpuX", 8), ceiling(0.3))), "max_hourly_cost", "0.32 USD an hour", false},
		{clusterType, labCluster("LAB Big", 2, 3, nil), "compute.gpu_type_id", "12.6 USD an hour, and max_hourly_cost is 6 USD (max_hourly_cost of the provider block). Computed for LAB Big: 2.1 USD (secure price of a GPU) × 2 (compute.gpu_count_per_pod) × 3 (compute.pod_count).", false},
		{endpointType, labEndpoint(nil), "", "The cost is not known: max_hourly_cost of 6 USD (max_hourly_cost of the provider block) is not compared: a configuration that accepts any GPU or CPU has no price.", true},
		{podType, labPod(withChanges(podCPU("cpuX", 2), map[string]any{"cloud": "COMMUNITY"})), "cpu.id", "the catalog has no price of cpuX with 2 vCPUs for pods of the COMMUNITY cloud.", true},

		{endpointType, labEndpoint(withChanges(big, workers(0))), "", "", false},
		{endpointType, labEndpoint(withChanges(big, workers(3), ceiling(20))), "", "", false}, // overrides the provider's ceiling
		{endpointType, labEndpoint(withChanges(gpuSettings(map[string]any{"type_ids": []any{"LAB Small"}}), ceiling(1.5))), "", "", false},
		{podType, labPod(withChanges(gpuSettings(map[string]any{"id": "LAB Small", "count": 3}), ceiling(0.6))), "", "", false}, // 3 × 0.2, exactly
		{podType, labPod(withChanges(gpuSettings(map[string]any{"id": "LAB Big", "count": 4}), map[string]any{"desired_state": "EXITED"})), "", "", false},
		{clusterType, labCluster("LAB Big", 1, 2, nil), "", "", false},
		{endpointType, labEndpoint(withChanges(big, workers(tfdrive.Unknown))), "", "", false},
		{endpointType, labEndpoint(withChanges(gpuSettings(map[string]any{"pools": []any{"LAB_96"}, "count": tfdrive.Unknown}), workers(9))), "", "", false},
		{podType, labPod(withChanges(gpuSettings(map[string]any{"id": "LAB Big", "count": 4}), ceiling(tfdrive.Unknown))), "", "", false},
	}
	p := driveWith(t, d, api.V2, map[string]any{"max_hourly_cost": 6})
	warningProvider := driveWith(t, d, api.V2, map[string]any{"max_hourly_cost": 6, "plan_checks": map[string]any{"cost": "warning"}})
	offProvider := driveWith(t, d, api.V2, map[string]any{"max_hourly_cost": 6, "plan_checks": map[string]any{"cost": "off"}})
	for _, f := range findings {
		f.expect(t, d, p)
		f.isWarning = true
		f.expect(t, d, warningProvider)
		finding{f.typeName, f.config, "", "", false}.expect(t, d, offProvider)
	}
	finding{podType, labPod(ceiling(-1)), "max_hourly_cost", "Invalid max_hourly_cost: expected at least 0, got -1.", false}.expect(t, d, p)
	must.Equal(t, p.Plan(podType, tfdrive.State{}, labPod(gpuSettings(map[string]any{"id": "LAB Smal"}))).Diagnostics.Warnings(), "", "a warning follows from the unknown type")
	must.Equal(t, p.Plan(endpointType, tfdrive.State{}, labEndpoint(gpuSettings(map[string]any{"pools": []any{"LAB_95"}}))).Diagnostics.Warnings(), "", "a warning follows from the unknown pool")

	// If there are no prices, one warning covers all objects.
	v1 := driveWith(t, d, api.V1, map[string]any{"max_hourly_cost": 6, "plan_checks": map[string]any{"names": "off"}})
	finding{podType, labPod(nil), "", "API v1 has no catalog and no prices", true}.expect(t, d, v1)
	must.Equal(t, v1.Plan(podType, tfdrive.State{}, labPod(nil)).Diagnostics.Warnings(), "", "a second warning")
}

// The environment variable sets the cost ceiling unless the provider block does.
func TestCostCeilingFromEnvironment(t *testing.T) {
	d := acctest.DeployCatalog(t, labCatalog)
	t.Setenv("GPUCLOUD_MAX_HOURLY_COST", "2")
	finding{podType, labPod(nil), "gpu.id", "max_hourly_cost is 2 USD (GPUCLOUD_MAX_HOURLY_COST)", false}.expect(t, d, drive(t, d, api.V2))
	finding{podType, labPod(nil), "", "", false}.expect(t, d, driveWith(t, d, api.V2, map[string]any{"max_hourly_cost": 3}))
}

// With a cost ceiling and only zero prices, as without a catalog file, a run warns once.
func TestPlanCostWithZeroPrices(t *testing.T) {
	d := acctest.DeployLocal(t, "the deployment has prices")
	newEndpoint := func(name string) map[string]any {
		return labEndpoint(map[string]any{"name": name, "gpu": map[string]any{"pools": []any{"ADA_24"}}})
	}
	p := driveWith(t, d, api.V2, map[string]any{"max_hourly_cost": 1, "plan_checks": map[string]any{"stock": "off"}})
	finding{endpointType, newEndpoint("first"), "gpu.pools", "All prices of this object are 0: gpu.pools: max_hourly_cost of 1 USD (max_hourly_cost of the provider block) rejects nothing", true}.expect(t, d, p)
	must.Equal(t, p.Plan(endpointType, tfdrive.State{}, newEndpoint("second")).Diagnostics, nil, "the second plan repeats the warning")
	finding{endpointType, newEndpoint("third"), "", "", false}.expect(t, d, driveWith(t, d, api.V2, map[string]any{"plan_checks": map[string]any{"stock": "off"}}))
}
