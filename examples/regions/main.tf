# The same endpoint in several data centers, with a check block that warns in every plan and
# apply while workers fail to start. The image is built into the jobrunner.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

variable "image" {
  type    = string
  default = "builtin/echo"
}

variable "data_centers" {
  description = "Data center of each region."
  type        = map(string)
  default     = { europe = "EU-RO-1", america = "US-TX-3" }
}

# One template for all: one apply changes every region.
resource "gpucloud_template" "worker" {
  name       = "regions"
  image      = var.image
  category   = "CPU"
  serverless = true
}

resource "gpucloud_endpoint" "worker" {
  for_each        = var.data_centers
  name            = "worker-${each.key}"
  template_id     = gpucloud_template.worker.id
  cpu             = [{ id = "cpu3c", vcpu_count = 2 }]
  data_center_ids = [each.value]
  workers         = { min = 1, max = 3 }
}

data "gpucloud_endpoint_health" "worker" {
  for_each    = gpucloud_endpoint.worker
  endpoint_id = each.value.id
}

check "workers_start" {
  assert {
    condition     = alltrue([for health in data.gpucloud_endpoint_health.worker : health.workers.unhealthy == 0])
    error_message = "Workers fail to start in ${join(" and ", [for region, health in data.gpucloud_endpoint_health.worker : region if health.workers.unhealthy > 0])}."
  }
}

output "run_sync_urls" {
  value = { for region, endpoint in gpucloud_endpoint.worker : region => endpoint.request_urls.run_sync }
}
