terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

# The key comes from GPUCLOUD_API_KEY.
provider "gpucloud" {
  base_url = "http://127.0.0.1:8420"
}
