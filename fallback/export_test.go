package fallback

// Open reports whether the circuit is open: memory answers at once.
func (s *Store) Open() bool { return s.breaker.open() }
