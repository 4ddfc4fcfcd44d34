package insight

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name is a customer in JSON.
type Name struct {
	Customer string `json:"customer"`
	// Base64 has the bytes of a customer that is not UTF-8, which JSON cannot hold.
	Base64 string `json:"customer_base64,omitempty"`
}

// NameOf returns a customer's Name.
func NameOf(customer string) Name {
	if utf8.ValidString(customer) {
		return Name{Customer: customer}
	}
	return Name{Customer: strings.ToValidUTF8(customer, "\uFFFD"), Base64: base64.StdEncoding.EncodeToString([]byte(customer))}
}

// Check returns an error if a Name that was read is ambiguous: its Base64 is
// invalid, or is another customer's.
func (n Name) Check() error {
	if n.Base64 == "" {
		return nil
	}
	held, err := base64.StdEncoding.Strict().DecodeString(n.Base64)
	switch {
	case err != nil:
		return fmt.Errorf("customer_base64: %w", err)
	case len(held) == 0:
		return errors.New("customer_base64 is empty")
	case n.Customer != "" && n.Customer != NameOf(string(held)).Customer:
		return fmt.Errorf("customer is %s, and customer_base64 is %s", Shown(n.Customer), Shown(string(held)))
	}
	return nil
}

// Exact returns the customer, byte for byte. Call Check first if the Name was read.
func (n Name) Exact() string {
	if n.Base64 == "" {
		return n.Customer
	}
	held, err := base64.StdEncoding.DecodeString(n.Base64)
	if err != nil {
		return n.Customer
	}
	return string(held)
}

// Shown makes a customer, which is any bytes, fit for a terminal and for a column: it
// quotes all but plain text as in Go.
func Shown(customer string) string {
	plain := utf8.ValidString(customer) && !strings.HasPrefix(customer, `"`)
	for _, r := range customer {
		plain = plain && unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	if plain {
		return customer
	}
	return strings.ReplaceAll(strconv.QuoteToGraphic(customer), "  ", ` \x20`) // Wrap would join the spaces
}
