package sqldb

// onlyOwnerWrites is a no-op: the folder's access list decides.
func onlyOwnerWrites(string) error { return nil }
