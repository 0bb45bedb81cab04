data "gpucloud_cluster" "training" {
  name = "training"
}

data "gpucloud_cluster_pods" "training" {
  cluster_id = data.gpucloud_cluster.training.id
}

output "training_ranks" {
  value = { for pod in data.gpucloud_cluster_pods.training.pods : pod.rank => pod.status }
}
