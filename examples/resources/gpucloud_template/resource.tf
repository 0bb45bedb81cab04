variable "hub_token" {
  type      = string
  sensitive = true
  default   = "none"
}

resource "gpucloud_template" "worker" {
  name       = "sdxl-worker"
  image      = "registry.example.com/sdxl-worker:4"
  args       = "python -u handler.py --model \"base 1.0\""
  disk       = 40
  serverless = true
  env = {
    MODEL     = "sdxl"
    HUB_TOKEN = sensitive(var.hub_token)
  }
}
