data "gpucloud_cluster" "training" {
  name = "training"
}

output "training_pods" {
  value = data.gpucloud_cluster.training.compute.pod_count
}
