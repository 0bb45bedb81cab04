data "gpucloud_cluster_billing" "day" {
  bucket_size = "hour"
  last_n      = 24
}

output "clusters_last_day" {
  value = data.gpucloud_cluster_billing.day.totals.total_amount
}
