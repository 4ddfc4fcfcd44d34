package memory

// Len returns how many customers the store knows, and how many documents are not done.
func (s *Store) Len() (customers, documents int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[string]bool)
	for customer := range s.submitted.customers {
		known[customer] = true
	}
	for _, counts := range []map[string]count{s.recent, s.older} {
		for customer := range counts {
			known[customer] = true
		}
	}
	return len(known), s.submitted.documents.Len()
}
