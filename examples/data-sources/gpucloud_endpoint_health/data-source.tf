data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_health" "inference" {
  endpoint_id = data.gpucloud_endpoint.inference.id
}

check "queue" {
  assert {
    condition     = data.gpucloud_endpoint_health.inference.jobs.in_queue < 100
    error_message = "${data.gpucloud_endpoint_health.inference.jobs.in_queue} jobs wait."
  }
}
