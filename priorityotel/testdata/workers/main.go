// Main is a worker of a fleet that does what its standard input says: "submit CUSTOMER
// DOCUMENT" prints the level, "done CUSTOMER DOCUMENT" prints ok.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	member, err := fleet.Join(client, &fleet.Options{Name: os.Args[2], Store: priority.RedisOptions{Timeout: 2 * time.Second}})
	if err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what, customer, document string
		fmt.Sscan(lines.Text(), &what, &customer, &document)
		if what == "done" {
			_, err := member.Done(context.Background(), customer, document, 0)
			fmt.Println("ok", err)
			continue
		}
		decision, err := member.Submit(context.Background(), customer, document, 0)
		fmt.Println(decision.Level, err)
	}
	_ = member.Close(context.Background())
}
