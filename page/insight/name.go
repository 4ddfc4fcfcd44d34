package insight

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name is a customer in JSON.
type Name struct {
	Customer string `json:"customer"`
	// Base64 has the bytes of a customer that is no UTF-8, which JSON cannot hold.
	Base64 string `json:"customer_base64,omitempty"`
}

// NameOf returns a customer's Name.
func NameOf(customer string) Name {
	if utf8.ValidString(customer) {
		return Name{Customer: customer}
	}
	return Name{Customer: strings.ToValidUTF8(customer, "\uFFFD"), Base64: base64.StdEncoding.EncodeToString([]byte(customer))}
}

// Exact returns the customer, byte for byte.
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

// Shown makes a customer, who is any bytes, fit for a terminal and for a column:
// what is not plain is quoted as in Go.
func Shown(customer string) string {
	plain := utf8.ValidString(customer) && !strings.HasPrefix(customer, `"`)
	for _, r := range customer {
		plain = plain && unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	if plain {
		return customer
	}
	return strconv.QuoteToGraphic(customer)
}
