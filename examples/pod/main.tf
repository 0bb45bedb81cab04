# A pod with a network volume that outlives it: stop the pod with desired_state, and the
# next start finds the volume's files. A jobrunner runs notebook.py instead of the image.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

variable "running" {
  description = "Whether the pod runs and costs money."
  type        = bool
  default     = true
}

resource "gpucloud_network_volume" "work" {
  name        = "work"
  size        = 10
  data_center = "EU-RO-1"
}

resource "gpucloud_pod" "notebook" {
  name  = "notebook"
  image = "registry.example.com/you/notebook:1"
  cpu   = { id = "cpu3c", vcpu_count = 2 }
  disk  = 10
  ports = ["8888/http"]

  mounts = {
    network = [{ volume_id = gpucloud_network_volume.work.id, path = "/work" }]
  }

  desired_state = var.running ? "RUNNING" : "EXITED"
  wait_for      = var.running ? { port = 8888 } : null
}

data "gpucloud_pod_logs" "notebook" {
  pod_id = gpucloud_pod.notebook.id
  source = "container"
  tail   = 1

  depends_on = [gpucloud_pod.notebook]
}

output "last_line" {
  value = one(data.gpucloud_pod_logs.notebook.lines)
}
