# Jobs that share a network volume: each job stores its result there, and later jobs on any
# worker read it. A jobrunner runs batch.py instead of the image.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

resource "gpucloud_network_volume" "results" {
  name        = "results"
  size        = 20
  data_center = "EU-RO-1"

  deletion_protection = var.keep_results
}

variable "keep_results" {
  description = "Whether plans that would delete the volume are rejected."
  type        = bool
  default     = true
}

resource "gpucloud_template" "batch" {
  name       = "batch"
  image      = "registry.example.com/you/batch:1"
  category   = "CPU"
  serverless = true
}

# Cheap rather than quick: another worker only after a job has waited for 30 s. A job may
# run for two hours.
resource "gpucloud_endpoint" "batch" {
  name            = "batch"
  template_id     = gpucloud_template.batch.id
  cpu             = [{ id = "cpu3c", vcpu_count = 4 }]
  network_volumes = [gpucloud_network_volume.results.id]
  data_center_ids = [gpucloud_network_volume.results.data_center]
  workers         = { max = 2, idle_timeout = 5 }
  scaling         = { type = "QUEUE_DELAY", queue_delay = 30 }
  timeout         = 7200000
}

output "run_sync_url" {
  value = gpucloud_endpoint.batch.request_urls.run_sync
}
