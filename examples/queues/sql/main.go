// Sql keeps customers' documents in a table of PostgreSQL, and works on them by level: a
// customer who sends a hundred documents at once does not make another one wait.
//
//	go run ./examples/queues/sql -url postgres://localhost/ -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted. A worker locks its document's row in a transaction, so that if it dies,
// another worker gets the document at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

const (
	create = `CREATE TABLE IF NOT EXISTS documents (id bigserial PRIMARY KEY, level int NOT NULL, customer text NOT NULL, name text NOT NULL);
		CREATE INDEX IF NOT EXISTS documents_by_level ON documents (level, id)`
	insert = `INSERT INTO documents (level, customer, name) VALUES ($1, $2, $3)`
	take   = `DELETE FROM documents WHERE id = (SELECT id FROM documents ORDER BY level, id FOR UPDATE SKIP LOCKED LIMIT 1)
		RETURNING customer, name`
)

func main() {
	address := flag.String("redis", "localhost:6379", "the `address` of Redis, for the customers' counts")
	url := flag.String("url", "postgres://localhost/", "the `URL` of PostgreSQL")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *url); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, url string) (err error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	store, err := fleet.Join(client, nil)
	if err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, db.Close(ctx), store.Close(ctx))
	}()
	if _, err := db.Exec(ctx, create); err != nil {
		return err
	}
	for number := range 100 {
		if err := send(ctx, db, store, "archive", fmt.Sprint("archive-", number)); err != nil {
			return err
		}
	}
	if err := send(ctx, db, store, "clinic", "clinic-0"); err != nil {
		return err
	}
	for err = nil; ctx.Err() == nil && err == nil; {
		err = pgx.BeginFunc(context.WithoutCancel(ctx), db, func(tx pgx.Tx) error { return work(ctx, tx, store) })
	}
	return err
}

func send(ctx context.Context, db *pgx.Conn, store *fleet.Member, customer, document string) error {
	decision, err := store.Submit(ctx, customer, priority.Document{ID: document})
	if err != nil {
		return err
	}
	if _, err = db.Exec(ctx, insert, decision.Level, customer, document); err != nil { // it must not stay pending
		_, done := store.Done(context.WithoutCancel(ctx), customer, document, 0)
		err = errors.Join(err, done)
	}
	return err
}

// work works on the first document that no other worker has.
func work(ctx context.Context, tx pgx.Tx, store *fleet.Member) error {
	ctx = context.WithoutCancel(ctx) // finish what has begun
	var customer, document string
	if err := tx.QueryRow(ctx, take).Scan(&customer, &document); errors.Is(err, pgx.ErrNoRows) {
		time.Sleep(100 * time.Millisecond)
		return nil
	} else if err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond) // the work
	fmt.Println(document)
	if _, err := store.Done(ctx, customer, document, 20*time.Millisecond); err != nil {
		log.Print(err) // it counts as pending until its lease ends
	}
	return nil
}
