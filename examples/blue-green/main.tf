terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

variable "images" {
  description = "Image of each colour that runs."
  type        = map(string)
  default     = { blue = "registry.example.com/you/worker:1" }
}

variable "live" {
  description = "Colour that clients use."
  type        = string
  default     = "blue"
}

resource "gpucloud_template" "worker" {
  for_each   = var.images
  name       = "worker-${each.key}"
  image      = each.value
  category   = "CPU"
  serverless = true
}

resource "gpucloud_endpoint" "worker" {
  for_each    = var.images
  name        = "worker-${each.key}"
  template_id = gpucloud_template.worker[each.key].id
  cpu         = [{ id = "cpu3c", vcpu_count = 2 }]
  workers     = { min = 1, max = 2 }
  wait_for    = { rollout = true, worker = true }
  timeouts    = { create = "15m", update = "15m" }
}

output "live" {
  description = "Where clients send jobs."
  value       = gpucloud_endpoint.worker[var.live].request_urls
}

output "other" {
  description = "Addresses of the other colour, to test or drain it; null without one."
  value       = one([for color, e in gpucloud_endpoint.worker : e.request_urls if color != var.live])
}

data "gpucloud_endpoint_releases" "live" {
  endpoint_id = gpucloud_endpoint.worker[var.live].id
}

output "release" {
  value = "release ${data.gpucloud_endpoint_releases.live.endpoint_version} is on ${data.gpucloud_endpoint_releases.live.rollout.workers_on_latest} of ${data.gpucloud_endpoint_releases.live.rollout.workers_total} workers"
}
