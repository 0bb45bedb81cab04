data "gpucloud_network_volume_billing" "month" {
  bucket_size = "month"
  last_n      = 1
}

output "cost_by_volume" {
  value = { for r in data.gpucloud_network_volume_billing.month.records : r.network_volume_id => r.total_amount }
}
