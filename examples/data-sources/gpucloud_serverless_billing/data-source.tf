data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_serverless_billing" "week" {
  serverless_id = data.gpucloud_endpoint.inference.id
  last_n        = 7
}

output "cost_by_day" {
  value = { for r in data.gpucloud_serverless_billing.week.records : r.start_time => r.total_amount }
}
