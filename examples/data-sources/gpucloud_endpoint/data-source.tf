data "gpucloud_endpoint" "inference" {
  name = "inference"
}

output "run_url" {
  value = data.gpucloud_endpoint.inference.request_urls.run
}
