data "gpucloud_public_endpoint_billing" "year" {
  bucket_size = "year"
  last_n      = 1
}

output "public_endpoints_this_year" {
  value = data.gpucloud_public_endpoint_billing.year.totals.total_amount
}
