package insight

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/docpriority/priority/internal/keys"
)

// Command returns a command of priorityctl, such as "override list", for a POSIX shell.
func (i *Inspector) Command(command string) string {
	command = "priorityctl " + command
	if i.Prefix != keys.DefaultPrefix {
		command += " -prefix " + ShellQuoted(i.Prefix)
	}
	return command
}

// CommandFor returns a command about a customer. It escapes what a terminal or a line
// would change, and so name another customer.
func (i *Inspector) CommandFor(customer, command string) string {
	line := i.Command(command)
	switch {
	case !typable(customer):
		if strings.HasPrefix(command, "reset") {
			line += " -yes" // no one can be asked
		}
		bytes := base64.StdEncoding.EncodeToString([]byte(customer))
		return fmt.Sprintf(`printf %%s '{"customer_base64":"%s"}' | %s -from -`, bytes, line)
	case strings.HasPrefix(customer, "-"):
		line += " --"
	}
	return line + " " + ShellQuoted(customer)
}
