package jobrunner

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"

// StateFiles are the names of what the data folder has of the state beside the database:
// reports that it could not take yet, the deployment's id and its further keys.
func StateFiles() []string { return []string{reportsFolder, machineFile, apikey.FileName} }
