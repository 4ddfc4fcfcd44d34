// Package keys spells the names of all keys in Redis.
package keys

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/docpriority/priority/internal/check"
)

// DefaultPrefix begins the keys of those who choose no other prefix.
const DefaultPrefix = "priority"

// Prefix begins every key. The zero Prefix is the default one.
type Prefix string

// Validate returns an error for a prefix with a brace, which would move the hash tag.
func (p Prefix) Validate() error {
	if strings.ContainsAny(string(p), "{}") {
		return fmt.Errorf("%w option: Prefix %.80q has a brace in it", check.ErrInvalid, string(p))
	}
	return nil
}

// The kinds of a customer's keys. lua/next.lua and lua/submit.lua describe their values.
const (
	Count    = "count"
	Pending  = "pending"
	Override = "override"
)

// Account splits the name of a user of an account, at the first slash. It is false for other
// customers. An account has a name: without one, its users' keys would have an empty hash tag.
func Account(customer string) (account, user string, ok bool) {
	account, user, ok = strings.Cut(customer, "/")
	return account, user, ok && account != ""
}

// Payer returns whose costs are compared with others': where names are split, an account with all
// its users is one customer.
func Payer(customer string, isSplit bool) string {
	if account, _, ok := Account(customer); ok && isSplit {
		return account
	}
	return customer
}

// OfUser returns the key of a user of an account, which lives where the account's keys do.
func (p Prefix) OfUser(account, user, kind string) string {
	return p.text() + ":{" + escaped(account) + "}/" + escaped(user) + ":" + kind
}

// Document returns whose document a member of an account's set of pending documents is, and the
// document's id; in other sets, all are the account's own. It is false for members that are no
// document.
func Document(account, member string) (customer, id string, ok bool) {
	id, marked := strings.CutPrefix(member, ":")
	if !marked || strings.HasPrefix(id, ":") {
		return account, id, true
	}
	id, ok = strings.CutPrefix(id, "/")
	length, rest, _ := strings.Cut(id, "/")
	bytes, err := strconv.Atoi(length)
	if !ok || err != nil || bytes < 0 || bytes > len(rest) {
		return "", "", false
	}
	return account + "/" + unescaper.Replace(rest[:bytes]), rest[bytes:], true
}

// Of returns the key of a customer. The braces are the hash tag by which a Redis Cluster
// places all keys of a customer on one node.
func (p Prefix) Of(customer, kind string) string {
	return p.text() + ":{" + escaped(customer) + "}:" + kind
}

// Policies, Overrides and Log are what operators set: the policies, the list of customers with
// an override, and who changed what.
func (p Prefix) Policies() string  { return p.control("policies") }
func (p Prefix) Overrides() string { return p.control("overrides") }
func (p Prefix) Log() string       { return p.control("log") }

func (p Prefix) control(name string) string { return p.text() + ":{control}:" + name }

// Report is the key of a process's report. Members lists the processes, and Emptied says when
// one of them found that Redis had lost its data. History counts documents, five minutes a slot.
func (p Prefix) Report(id string) string   { return p.fleet(id) }
func (p Prefix) Members() string           { return p.fleet("members") }
func (p Prefix) Emptied() string           { return p.fleet("emptied") }
func (p Prefix) History(slot int64) string { return p.Histories() + ":" + strconv.FormatInt(slot, 10) }

// Histories is how the keys of all slots begin, as report.lua gets it.
func (p Prefix) Histories() string { return p.fleet("history") }

func (p Prefix) fleet(name string) string { return p.text() + ":{fleet}:" + name }

// Pattern matches every customer's keys, and others, in a SCAN.
func (p Prefix) Pattern() string { return globEscaper.Replace(p.text()) + ":{*}*:*" }

// Parse returns the customer of a key and the key's kind. It is false for a key that is no
// customer's.
func (p Prefix) Parse(key string) (customer, kind string, ok bool) {
	body, ok := strings.CutPrefix(key, p.text()+":{")
	at := strings.LastIndex(body, ":")
	if !ok || at < 0 {
		return "", "", false
	}
	name, user, isUser := strings.Cut(body[:at], "}/")
	if !isUser {
		name, ok = strings.CutSuffix(name, "}")
	}
	customer, kind = unescaper.Replace(name), body[at+1:]
	ok = ok && escaped(customer) == name
	if isUser {
		ok = ok && name != "" && !strings.Contains(name, "/") && escaped(unescaper.Replace(user)) == user
		customer += "/" + unescaper.Replace(user)
	}
	return customer, kind, ok && (kind == Count || kind == Pending || kind == Override) && check.Customer(customer) == nil
}

func (p Prefix) text() string { return cmp.Or(string(p), DefaultPrefix) }

// escaped keeps the hash tag whole and the keys of two customers apart.
func escaped(customer string) string {
	if strings.ContainsAny(customer, "%}") {
		return escaper.Replace(customer)
	}
	return customer
}

var (
	escaper     = strings.NewReplacer("%", "%25", "}", "%7D")
	unescaper   = strings.NewReplacer("%25", "%", "%7D", "}")
	globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
)
