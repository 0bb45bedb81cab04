resource "gpucloud_template" "worker" {
  name       = "endpoint-worker"
  image      = "registry.example.com/sdxl-worker:4"
  serverless = true
}

# Follows its template. Works on both API versions, but only v1 tries the GPU types in this
# order; on v2 the plan warns.
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

# With its own image and GPUs by pool. API v2 only.
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
