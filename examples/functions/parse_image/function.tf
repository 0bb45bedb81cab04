terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

variable "image" {
  type    = string
  default = "registry.example.com/acme/worker:4.1"

  validation {
    condition     = provider::gpucloud::parse_image(var.image).registry == "registry.example.com"
    error_message = "Images come from registry.example.com."
  }
}

resource "gpucloud_template" "worker" {
  name       = "worker-${replace(provider::gpucloud::parse_image(var.image).tag, ".", "-")}" # worker-4-1
  image      = var.image
  serverless = true
}
