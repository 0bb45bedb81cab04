variable "hub_token" {
  type      = string
  ephemeral = true
}

resource "gpucloud_template" "worker" {
  name       = "sdxl-worker"
  image      = "registry.example.com/sdxl-worker:4"
  cmd        = ["python", "-u", "handler.py", "--model", "base 1.0"]
  disk       = 40
  serverless = true
  env = {
    MODEL = "sdxl"
  }

  # Sent once; neither the state nor a plan contains it. Raise the version to send a new token.
  env_wo = {
    HUB_TOKEN = var.hub_token
  }
  env_wo_version = 1
}
