data "gpucloud_ssh_keys" "account" {}

output "key_comments" {
  value = [for key in data.gpucloud_ssh_keys.account.keys : split(" ", key)[2]]
}
