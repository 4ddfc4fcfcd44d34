// Package customer writes customers, which are any bytes, in JSON.
package customer

import (
	"errors"
	"unicode/utf8"
)

// Name is a customer in JSON, in one of two fields.
type Name struct {
	Customer string `json:"customer,omitempty"`
	Base64   []byte `json:"customer_base64,omitempty"` // of a customer that is not UTF-8
}

// NameOf returns a customer's Name.
func NameOf(customer string) Name {
	if utf8.ValidString(customer) {
		return Name{Customer: customer}
	}
	return Name{Base64: []byte(customer)}
}

// Check returns an error if a Name that was read names no customer, or two.
func (n Name) Check() error {
	switch {
	case n.Customer == "" && len(n.Base64) == 0:
		return errors.New("neither customer nor customer_base64")
	case n.Customer != "" && len(n.Base64) > 0 && n.Customer != string(n.Base64):
		return errors.New("customer and customer_base64 differ")
	}
	return nil
}

// Exact returns the customer, byte for byte.
func (n Name) Exact() string {
	if len(n.Base64) > 0 {
		return string(n.Base64)
	}
	return n.Customer
}
