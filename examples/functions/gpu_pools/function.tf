terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

resource "gpucloud_endpoint" "large" {
  name  = "large-models"
  image = "registry.example.com/worker:4"
  gpu = {
    pools = provider::gpucloud::gpu_pools(["NVIDIA L40S", "NVIDIA A40"]) # ADA_48_PRO and AMPERE_48
  }
}
