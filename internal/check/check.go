// Package check checks the arguments of a Store's calls. Its errors wrap ErrInvalid.
package check

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrInvalid is priority.ErrInvalid.
var ErrInvalid = errors.New("priority: invalid")

// The largest arguments.
const (
	MaxCustomerBytes = 512
	MaxDocumentBytes = 512
	MaxDocuments     = 1_000_000
)

// Customer checks a customer.
func Customer(customer string) error {
	if n := len(customer); n == 0 || n > MaxCustomerBytes {
		return fmt.Errorf("%w customer: %.80q has %d bytes, not 1 to %d", ErrInvalid, customer, n, MaxCustomerBytes)
	}
	return nil
}

// N checks the arguments of NextN.
func N(customer string, n int) error {
	if err := Customer(customer); err != nil {
		return err
	}
	if n < 0 || n > MaxDocuments {
		return fmt.Errorf("%w number of documents: %d is not 0 to %d", ErrInvalid, n, MaxDocuments)
	}
	return nil
}

// Each checks the arguments of NextEach and PeekEach.
func Each(customers []string) error {
	if n := len(customers); n > MaxDocuments {
		return fmt.Errorf("%w number of documents: %d customers in one call, more than %d", ErrInvalid, n, MaxDocuments)
	}
	for i, customer := range customers {
		if err := Customer(customer); err != nil {
			return fmt.Errorf("%w (customers[%d])", err, i)
		}
	}
	return nil
}

// Submit checks the arguments of Submit and SubmitN.
func Submit(customer string, documents []string, costs []float64) error {
	if err := ids(customer, documents); err != nil {
		return err
	}
	if costs != nil && len(costs) != len(documents) {
		return fmt.Errorf("%w cost: %d costs for %d documents", ErrInvalid, len(costs), len(documents))
	}
	for i, cost := range costs {
		if !(cost >= 0) || math.IsInf(cost, 1) {
			return fmt.Errorf("%w cost: %v is not 0 (unknown) or a positive finite number (document %.80q)", ErrInvalid, cost, documents[i])
		}
	}
	return nil
}

// Done checks the arguments of Done and DoneN.
func Done(customer string, documents []string, took time.Duration) error {
	if err := ids(customer, documents); err != nil {
		return err
	}
	if took < 0 {
		return fmt.Errorf("%w time: a document cannot have taken %v", ErrInvalid, took)
	}
	return nil
}

func ids(customer string, documents []string) error {
	if err := Customer(customer); err != nil {
		return err
	}
	if n := len(documents); n > MaxDocuments {
		return fmt.Errorf("%w number of documents: %d in one call, more than %d", ErrInvalid, n, MaxDocuments)
	}
	for i, document := range documents {
		if n := len(document); n == 0 || n > MaxDocumentBytes {
			return fmt.Errorf("%w document: %.80q has %d bytes, not 1 to %d (documents[%d])", ErrInvalid, document, n, MaxDocumentBytes, i)
		}
	}
	return nil
}
