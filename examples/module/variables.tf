variable "name" {
  description = "Name of the endpoint and of its template."
  type        = string
}

variable "image" {
  description = "Image of the workers, with a tag that says which release it is."
  type        = string

  validation {
    condition     = provider::gpucloud::parse_image(var.image).tag != "latest"
    error_message = "Invalid image: expected a tag other than latest, so that a plan shows each release."
  }
}

variable "env" {
  description = "Environment of the workers. It is kept in the state: no secrets."
  type        = map(string)
  default     = {}
}

variable "max_workers" {
  description = "Most workers at a time, which bounds what the endpoint costs."
  type        = number
  default     = 1

  validation {
    condition     = var.max_workers >= 1 && var.max_workers <= 10
    error_message = "Invalid max_workers: expected 1 to 10."
  }
}

variable "watched_job" {
  description = "Id of a job that must be COMPLETED; null for none."
  type        = string
  default     = null
}
