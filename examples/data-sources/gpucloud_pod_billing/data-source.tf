data "gpucloud_pod_billing" "june" {
  start_time  = "2026-06-01T00:00:00Z"
  end_time    = "2026-07-01T00:00:00Z"
  bucket_size = "month"
}

output "cost_by_pod" {
  value = { for r in data.gpucloud_pod_billing.june.records : r.pod_id => r.total_amount }
}
