data "gpucloud_endpoint_build" "latest" {
  endpoint_id = "the-id-of-an-endpoint"
  id          = "the-id-of-a-build"
}

output "image" {
  value = data.gpucloud_endpoint_build.latest.image_name
}
