# Sends the endpoint a job. If the job fails, the test fails.

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

ephemeral "gpucloud_job" "shout" {
  endpoint_id = var.endpoint_id
  input       = jsonencode({ text = "hello" })
  timeout     = "1m"

  lifecycle {
    postcondition {
      condition     = jsondecode(self.output).TEXT == "HELLO"
      error_message = "The job does not return the text in upper case."
    }
  }
}
