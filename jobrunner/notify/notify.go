// Package notify wakes a goroutine through a channel.
package notify

// Signal sends on a channel with a buffer of one. It never blocks: if a signal is already pending, the
// receiver will see all changes anyway.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
