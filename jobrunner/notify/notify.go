// Package notify wakes a goroutine through a channel.
package notify

// Signal sends on a channel with a buffer of one without blocking: a pending signal covers all changes.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
