# The configuration under test: an endpoint whose workers convert text to upper case.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

resource "gpucloud_template" "shout" {
  name       = "shout"
  image      = "registry.example.com/you/shout:1"
  category   = "CPU"
  serverless = true
}

resource "gpucloud_endpoint" "shout" {
  name        = "shout"
  template_id = gpucloud_template.shout.id
  cpu         = [{ id = "cpu3c", vcpu_count = 2 }]
  workers     = { max = 1 }
}

output "endpoint_id" {
  value = gpucloud_endpoint.shout.id
}
