package report

// Area is a subject of clauses, and the prefix of their ids.
type Area struct{ ID, Title string }

// Areas are all areas, in the order of the registry.
var Areas = []Area{
	{"JOB", "Jobs and their states"}, {"SUB", "Submission"}, {"OPS", "Operations of the job API"}, {"LIM", "Limits"}, {"RAT", "Rates"},
	{"AUT", "Authentication"}, {"ERR", "Errors"}, {"WEB", "Webhooks"}, {"T", "Templates"}, {"V", "Network volumes"}, {"R", "Registry credentials"},
	{"P", "Endpoints"}, {"DAT", "Data of jobs"}, {"STO", "Stored objects"}, {"M", "Version 1 in general"}, {"VER", "Version 2 and differences between versions"}, {"BIL", "Billing"}, {"CMD", "Start commands"}, {"SEC", "Account secrets"}, {"GLO", "Global volumes"}, {"BLD", "Builds"}, {"BAT", "Batch jobs"}, {"CLI", "Clients"},
}

// areaTitle returns the title of an area, or its id if the area is unknown.
func areaTitle(area string) string {
	for _, a := range Areas {
		if a.ID == area {
			return a.Title
		}
	}
	return area
}
