package page_test

import (
	"log"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/page"
)

// The page is one of a team's own server. Here a proxy has logged people in.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	operators, err := page.New(client, &page.Options{
		Store: priority.RedisOptions{Prefix: "documents"}, // as the workers have it
		Authorize: func(r *http.Request) (actor string, ok bool) {
			actor = r.Header.Get("X-Forwarded-User")
			return actor, actor != ""
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/ops/priority/", http.StripPrefix("/ops/priority", operators))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
