data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_releases" "inference" {
  endpoint_id = data.gpucloud_endpoint.inference.id
}

check "rolled_out" {
  assert {
    condition     = !data.gpucloud_endpoint_releases.inference.rollout.in_progress
    error_message = "${data.gpucloud_endpoint_releases.inference.rollout.percent_on_latest} % of the workers have the newest release."
  }
}
