package report

import "io"

// WriteHTML writes one page that needs nothing else.
func (s Simulation) WriteHTML(to io.Writer) error { return nil }
