terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

# A RunPod account. The key comes from RUNPOD_API_KEY.
provider "gpucloud" {
  service = "runpod"
}
