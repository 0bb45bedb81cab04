data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_workers" "inference" {
  endpoint_id = data.gpucloud_endpoint.inference.id
}

# The deployment's messages about each worker, such as why it ended.
data "gpucloud_worker_logs" "system" {
  count = length(data.gpucloud_endpoint_workers.inference.workers)

  endpoint_id = data.gpucloud_endpoint.inference.id
  worker_id   = data.gpucloud_endpoint_workers.inference.workers[count.index].id
  source      = "system"
  tail        = 20
  seconds     = 5
}
