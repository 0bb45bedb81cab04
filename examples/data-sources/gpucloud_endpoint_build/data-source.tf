variable "build_id" {
  type = string
}

data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_build" "latest" {
  endpoint_id = data.gpucloud_endpoint.inference.id
  id          = var.build_id
}

output "image" {
  value = data.gpucloud_endpoint_build.latest.image_name
}
