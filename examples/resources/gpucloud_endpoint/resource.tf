resource "gpucloud_template" "worker" {
  name       = "endpoint-worker"
  image      = "registry.example.com/sdxl-worker:4"
  serverless = true
}

# Follows the template. Works on both API versions; the order of the GPUs is one of
# priority on v1 alone: v2 keeps none, and the plan says so.
resource "gpucloud_endpoint" "sdxl" {
  name        = "sdxl"
  template_id = gpucloud_template.worker.id
  gpu = {
    type_ids         = ["NVIDIA L4", "NVIDIA GeForce RTX 4090"]
    min_cuda_version = "12.4"
  }
  workers = { min = 0, max = 5, idle_timeout = 30 }
  scaling = { type = "QUEUE_DELAY", queue_delay = 4 }
  timeout = 900000
}

# With a container of its own and GPUs by pool. API v2.
resource "gpucloud_endpoint" "llm" {
  name  = "llm"
  image = "registry.example.com/llm:1"
  env   = { MAX_TOKENS = "4096" }
  gpu = {
    pools          = ["ADA_80_PRO", "AMPERE_80"]
    excluded_types = ["NVIDIA A100 80GB PCIe"]
    count          = 2
  }
  scaling = { type = "REQUEST_COUNT", request_count = 8 }
}
