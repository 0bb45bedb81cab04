data "gpucloud_endpoints" "queues" {
  type = "QUEUE"
}

# Warns if an endpoint may grow too large.
check "few_workers" {
  assert {
    condition     = alltrue([for e in data.gpucloud_endpoints.queues.endpoints : e.workers.max <= 10])
    error_message = "An endpoint may have more than 10 workers."
  }
}
