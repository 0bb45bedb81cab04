data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_workers" "inference" {
  endpoint_id = data.gpucloud_endpoint.inference.id
}

# What the deployment says of each worker, such as why its process ended.
data "gpucloud_worker_logs" "system" {
  count = length(data.gpucloud_endpoint_workers.inference.workers)

  endpoint_id = data.gpucloud_endpoint.inference.id
  worker_id   = data.gpucloud_endpoint_workers.inference.workers[count.index].id
  source      = "system"
  tail        = 20
  seconds     = 5
}
