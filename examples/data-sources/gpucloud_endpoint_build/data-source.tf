variable "build_id" {
  type = string
}

data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_endpoint_build" "build" {
  endpoint_id = data.gpucloud_endpoint.inference.id
  id          = var.build_id
}

output "image" {
  value = data.gpucloud_endpoint_build.build.image_name
}
