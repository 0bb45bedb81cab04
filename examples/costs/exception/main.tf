provider "gpucloud" {
  max_hourly_cost = 5
}

# Two pods with two GPUs each: 4 × 2.99 USD. The resource's ceiling replaces the provider's.
resource "gpucloud_cluster" "training" {
  name            = "training"
  type            = "TRAINING"
  image           = "registry.example.com/training:1"
  compute         = { gpu_type_id = "NVIDIA H100 80GB HBM3", gpu_count_per_pod = 2, pod_count = 2 }
  max_hourly_cost = 12
}

# A lower ceiling for a test pod.
resource "gpucloud_pod" "notebook" {
  name            = "notebook"
  image           = "registry.example.com/notebook:1"
  gpu             = { id = "NVIDIA L4" }
  max_hourly_cost = 0.50
}
