package page

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docpriority/priority"
)

// A customer is any bytes. In URLs and forms it is "c" if a browser sends back the
// very same bytes, and else "c64", in base64 for URLs.
const (
	plainCustomer = "c"
	exactCustomer = "c64"
)

// customerParameter returns the parameter for a customer in URLs and forms.
func customerParameter(customer string) (name, value string) {
	plain := utf8.ValidString(customer)
	for _, r := range customer {
		plain = plain && unicode.IsGraphic(r) // forms change line ends and NUL, and the others are invisible
	}
	if plain {
		return plainCustomer, customer
	}
	return exactCustomer, base64.RawURLEncoding.EncodeToString([]byte(customer))
}

// customerOf returns the customer that a URL or a form names. An error wraps
// [priority.ErrInvalidCustomer].
func customerOf(values url.Values) (string, error) {
	customer := values.Get(plainCustomer)
	if values.Has(exactCustomer) {
		if values.Has(plainCustomer) {
			return "", errors.Join(priority.ErrInvalidCustomer, errors.New("there are two: c and c64"))
		}
		exact, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(values.Get(exactCustomer), "="))
		if err != nil {
			return "", errors.Join(priority.ErrInvalidCustomer, errors.New("c64 is not base64 for URLs"))
		}
		customer = string(exact)
	}
	return customer, priority.CheckCustomer(customer)
}

// customerURL returns the URL of a page about a customer. Pairs are further
// parameters.
func customerURL(page, customer string, pairs ...string) string {
	name, value := customerParameter(customer)
	values := url.Values{name: {value}}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return page + "?" + values.Encode()
}

// escapedSegment writes a part of a path.
func escapedSegment(text string) string { return url.PathEscape(text) }
