terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

variable "ports" {
  type    = list(number)
  default = [8000, 8888]
}

resource "gpucloud_template" "notebook" {
  name  = "notebook"
  image = "registry.example.com/notebook:4"
  ports = [for number in var.ports : provider::gpucloud::port(number, "http")] # 8000/http and 8888/http
}
