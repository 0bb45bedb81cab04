variable "job_id" {
  type = string
}

data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_job" "sent" {
  endpoint_id = data.gpucloud_endpoint.inference.id
  id          = var.job_id
}

check "sent_job" {
  assert {
    condition     = data.gpucloud_job.sent.status == "COMPLETED"
    error_message = "The job is ${data.gpucloud_job.sent.status}."
  }
}
