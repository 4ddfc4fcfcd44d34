// Package check checks the arguments of a Store's calls. Its errors wrap ErrInvalid.
package check

import (
	"errors"
	"fmt"
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

// Submit checks the arguments of Submit.
func Submit[D interface{ Validate() error }](customer string, document D) error {
	if err := Customer(customer); err != nil {
		return err
	}
	return document.Validate()
}

// SubmitN checks the arguments of SubmitN.
func SubmitN[D interface{ Validate() error }](customer string, documents []D) error {
	if err := number(customer, len(documents)); err != nil {
		return err
	}
	for i, document := range documents {
		if err := document.Validate(); err != nil {
			return fmt.Errorf("%w (documents[%d])", err, i)
		}
	}
	return nil
}

// Done checks the arguments of Done.
func Done(customer, document string, took time.Duration) error {
	if err := Customer(customer); err != nil {
		return err
	}
	if err := ID(document); err != nil {
		return err
	}
	return worked(took)
}

// DoneN checks the arguments of DoneN.
func DoneN(customer string, documents []string, took time.Duration) error {
	if err := number(customer, len(documents)); err != nil {
		return err
	}
	for i, document := range documents {
		if err := ID(document); err != nil {
			return fmt.Errorf("%w (documents[%d])", err, i)
		}
	}
	return worked(took)
}

// ID checks a document's id.
func ID(document string) error {
	if n := len(document); n == 0 || n > MaxDocumentBytes {
		return fmt.Errorf("%w document: %.80q has %d bytes, not 1 to %d", ErrInvalid, document, n, MaxDocumentBytes)
	}
	return nil
}

// number checks the customer and the number of documents of a call.
func number(customer string, documents int) error {
	if err := Customer(customer); err != nil {
		return err
	}
	if documents > MaxDocuments {
		return fmt.Errorf("%w number of documents: %d in one call, more than %d", ErrInvalid, documents, MaxDocuments)
	}
	return nil
}

func worked(took time.Duration) error {
	if took < 0 {
		return fmt.Errorf("%w time: a document cannot have taken %v", ErrInvalid, took)
	}
	return nil
}
