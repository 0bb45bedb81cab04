variable "name" {
  description = "Name of the endpoint and of its template."
  type        = string
}

variable "image" {
  description = "Image of the workers, tagged with its release."
  type        = string

  validation {
    condition     = coalesce(provider::gpucloud::parse_image(var.image).tag, provider::gpucloud::parse_image(var.image).digest, "latest") != "latest"
    error_message = "Invalid image: expected a tag other than latest, so that a plan shows each release."
  }
}

variable "env" {
  description = "Environment of the workers. The state contains it, so don't put secrets into it."
  type        = map(string)
  default     = {}
}

variable "max_workers" {
  description = "Maximum number of workers, which bounds the cost."
  type        = number
  default     = 1

  validation {
    condition     = var.max_workers >= 1 && var.max_workers <= 10
    error_message = "Invalid max_workers: expected 1 to 10."
  }
}

variable "watched_job" {
  description = "Id of a job to watch: a check warns unless it is COMPLETED. Null watches none."
  type        = string
  default     = null
}
