data "gpucloud_clusters" "training" {
  type = "TRAINING"
}

# sum([]) fails.
output "gpus_in_training" {
  value = sum(concat([0], [for c in data.gpucloud_clusters.training.clusters : c.compute.pod_count * c.compute.gpu_count_per_pod]))
}
