// Package notify wakes a goroutine through a channel.
package notify

// Signal sends on a channel with a buffer of one, whose receiver then looks at all
// that has changed. It never blocks: a signal that is pending already is enough.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
