# An endpoint for a language model, with the routes of OpenAI's API. A jobrunner runs llm.py
# instead of the image; ../README.md shows a chat with it.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

variable "hub_token" {
  description = "Token of the model hub. It is sent and never stored."
  type        = string
  ephemeral   = true
  default     = null
}

resource "gpucloud_template" "llm" {
  name       = "llm"
  image      = "registry.example.com/you/llm:1"
  disk       = 60
  serverless = true
  env        = { MODEL = "small-chat" }

  env_wo         = var.hub_token == null ? null : { HUB_TOKEN = var.hub_token }
  env_wo_version = 1
}

# A worker stays for a minute after the last request: loading a model takes long.
resource "gpucloud_endpoint" "llm" {
  name        = "llm"
  template_id = gpucloud_template.llm.id
  gpu         = { pools = ["ADA_24", "AMPERE_24"] }
  workers     = { max = 3, idle_timeout = 60 }
  scaling     = { type = "QUEUE_DELAY", queue_delay = 2 }
  flashboot   = "FLASHBOOT"
}

output "openai_base_url" {
  description = "Base URL for clients of OpenAI's API. Their key is the API key of the cloud."
  value       = replace(gpucloud_endpoint.llm.request_urls.run, "//run$/", "/openai/v1")
}
