# A smoke test with `check`: each apply sends the endpoint a job, and warns if the answer is
# wrong. A jobrunner runs worker.py instead of the image.

terraform {
  required_version = ">= 1.11"
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

provider "gpucloud" {}

resource "gpucloud_template" "sum" {
  name       = "sum"
  image      = "registry.example.com/you/sum:1"
  category   = "CPU"
  serverless = true
}

resource "gpucloud_endpoint" "sum" {
  name        = "sum"
  template_id = gpucloud_template.sum.id
  cpu         = [{ id = "cpu3c", vcpu_count = 2 }]
  workers     = { max = 1 }
}

# A job that fails or times out fails the apply.
ephemeral "gpucloud_job" "smoke" {
  endpoint_id = gpucloud_endpoint.sum.id
  input       = jsonencode({ numbers = [1, 2, 3] })
  timeout     = "1m"
}

# A wrong answer is a warning.
check "answers" {
  assert {
    condition     = jsondecode(ephemeral.gpucloud_job.smoke.output).sum == 6
    error_message = "The endpoint does not answer 1 + 2 + 3 with 6."
  }
}

output "run_sync_url" {
  value = gpucloud_endpoint.sum.request_urls.run_sync
}
