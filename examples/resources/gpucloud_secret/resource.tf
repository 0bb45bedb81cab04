variable "hub_token" {
  type      = string
  ephemeral = true
  default   = null # needed only when it is sent
}

variable "hub_token_version" {
  type    = number
  default = 1
}

resource "gpucloud_secret" "hub" {
  name             = "hub_token"
  description      = "Reads the models of the team"
  value_wo         = var.hub_token
  value_wo_version = var.hub_token_version
}

resource "gpucloud_template" "worker" {
  name       = "worker"
  image      = "registry.example.com/you/worker:1"
  serverless = true
  env = {
    HF_TOKEN = "{{ RUNPOD_SECRET_${gpucloud_secret.hub.name} }}"
  }
}
