variable "endpoint_id" {
  description = "Endpoint that issues short-lived tokens."
  type        = string
}

# Runs in every plan and every apply.
ephemeral "gpucloud_job" "token" {
  endpoint_id = var.endpoint_id
  input       = jsonencode({ scope = "models:read" })
  timeout     = "2m"
}

resource "gpucloud_template" "worker" {
  name       = "model-worker"
  image      = "registry.example.com/worker:4"
  serverless = true

  env_wo = {
    MODELS_TOKEN = jsondecode(ephemeral.gpucloud_job.token.output).token
  }
  env_wo_version = 1
}
