data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_workers" "inference" {
  endpoint_id = data.gpucloud_endpoint.inference.id
}

output "workers_that_wait" {
  value = { for w in data.gpucloud_endpoint_workers.inference.workers : w.id => w.reason if w.status == "THROTTLED" }
}
