# Runs a job on the module's endpoint. If the job fails, the test fails.

terraform {
  required_providers {
    gpucloud = {
      source = "gpucloud/gpucloud"
    }
  }
}

variable "endpoint_id" {
  type = string
}

variable "greeting" {
  type = string
}

ephemeral "gpucloud_job" "hello" {
  endpoint_id = var.endpoint_id
  input       = jsonencode({ name = "Ada" })
  timeout     = "1m"

  lifecycle {
    postcondition {
      condition     = jsondecode(self.output).greeting == var.greeting
      error_message = "The job has another greeting than the one expected."
    }
  }
}
