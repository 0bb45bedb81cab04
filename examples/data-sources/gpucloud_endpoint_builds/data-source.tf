data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_builds" "inference" {
  endpoint_id = data.gpucloud_endpoint.inference.id
}

output "failed_builds" {
  value = [for b in data.gpucloud_endpoint_builds.inference.builds : b.id if contains(["FAILED", "TEST_FAILED"], b.status)]
}
