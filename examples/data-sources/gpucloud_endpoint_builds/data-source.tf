data "gpucloud_endpoint" "llm" {
  name = "llm"
}

data "gpucloud_endpoint_builds" "llm" {
  endpoint_id = data.gpucloud_endpoint.llm.id
}

output "failed_builds" {
  value = [for b in data.gpucloud_endpoint_builds.llm.builds : b.id if contains(["FAILED", "TEST_FAILED"], b.status)]
}
