data "gpucloud_pods" "running" {
  status = "RUNNING"
}

check "hourly_cost" {
  assert {
    # sum([]) fails.
    condition     = sum(concat([0], [for p in data.gpucloud_pods.running.pods : p.cost])) < 20
    error_message = "The pods of the account cost more than 20 USD an hour."
  }
}
