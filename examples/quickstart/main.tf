# An endpoint with its template, registry auth and volume. `make quickstart` applies this to
# a jobrunner on this machine. The provider's settings come from GPUCLOUD_BASE_URL and
# GPUCLOUD_API_KEY.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

variable "registry_token" {
  description = "Token for the registry that private images come from."
  type        = string
  sensitive   = true
  ephemeral   = true
}

variable "volume_size" {
  description = "Size of the network volume in GB. It can't shrink."
  type        = number
  default     = 20
}

# The token is sent once and is in no state or plan.
resource "gpucloud_registry_auth" "images" {
  name                = "quickstart"
  username            = "robot"
  password_wo         = var.registry_token
  password_wo_version = 1
}

resource "gpucloud_network_volume" "models" {
  name        = "quickstart-models"
  size        = var.volume_size
  data_center = "EU-RO-1"
}

# A cloud pulls the image. The jobrunner runs handler.go instead, because jobrunner.yaml has
# a rule for the image.
resource "gpucloud_template" "pi" {
  name       = "quickstart-pi"
  image      = "quickstart/pi"
  registry   = gpucloud_registry_auth.images.id
  serverless = true
  category   = "CPU"
  env = {
    SAMPLES = "1000000"
  }
}

# A change of the template plans an update of the endpoint.
resource "gpucloud_endpoint" "pi" {
  name            = "quickstart-pi"
  template_id     = gpucloud_template.pi.id
  network_volumes = [gpucloud_network_volume.models.id]
  data_center_ids = [gpucloud_network_volume.models.data_center]
  cpu             = [{ id = "cpu3c", vcpu_count = 2 }]
  workers         = { max = 1 }
}

output "run_url" {
  description = "POST a job here: {\"input\": {\"samples\": 3000000}}."
  value       = gpucloud_endpoint.pi.request_urls.run
}

output "run_sync_url" {
  description = "POST a job here and wait for its result."
  value       = gpucloud_endpoint.pi.request_urls.run_sync
}
