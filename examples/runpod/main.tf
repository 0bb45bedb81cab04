terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

# The key comes from RUNPOD_API_KEY.
provider "gpucloud" {
  service         = "runpod"
  max_hourly_cost = 2
}

resource "gpucloud_endpoint" "hello" {
  name    = "hello"
  image   = "registry.example.com/you/hello:1"
  gpu     = { pools = ["ADA_24"] }
  workers = { max = 1, idle_timeout = 5 }
}

output "run_sync_url" {
  value = gpucloud_endpoint.hello.request_urls.run_sync
}
