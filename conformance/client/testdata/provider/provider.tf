terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

# All settings come from the environment.
provider "gpucloud" {}
