# An endpoint without GPUs. Its workers have two processors and scale with the queue; without
# jobs none runs. A jobrunner runs worker.py instead of the image.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

resource "gpucloud_template" "words" {
  name       = "words"
  image      = "registry.example.com/you/words:1"
  category   = "CPU"
  serverless = true
  env        = { LANGUAGE = "en" }
}

resource "gpucloud_endpoint" "words" {
  name        = "words"
  template_id = gpucloud_template.words.id
  cpu         = [{ id = "cpu3c", vcpu_count = 2 }, { id = "cpu3g", vcpu_count = 2 }] # the first one in stock
  workers     = { max = 3 }
  scaling     = { type = "REQUEST_COUNT", request_count = 4 }
}

output "run_sync_url" {
  description = "POST {\"input\": {\"text\": …}} here."
  value       = gpucloud_endpoint.words.request_urls.run_sync
}
