# The account's costs of this month and the two before it.
data "gpucloud_billing" "months" {
  bucket_size = "month"
  last_n      = 3
}

check "budget" {
  assert {
    condition     = data.gpucloud_billing.months.totals.total_amount < 1000
    error_message = "The last three months cost ${data.gpucloud_billing.months.totals.total_amount} USD."
  }
}
