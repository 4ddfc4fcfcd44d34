package priorityrabbitmq

import (
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitMQ's documentation says that a classic queue cycles through its priorities and starves
// none. Its source says the contrary, and levels need that.
func testClassicQueue(t *testing.T, url string) {
	connection, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare("classic", true, false, false, false, amqp.Table{"x-max-priority": 9}); err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	publish := func(priority uint8) {
		confirmed, err := channel.PublishWithDeferredConfirm("", "classic", false, false, amqp.Publishing{Priority: priority})
		if err != nil {
			t.Fatal(err)
		}
		confirmed.Wait()
	}
	for range 20 {
		publish(0)
		publish(5)
	}
	for range 50 { // the flood at 0 and 5 waits as long as a 9 comes in time
		publish(9)
		message, ok, err := channel.Get("classic", true)
		if err != nil || !ok || message.Priority != 9 {
			t.Fatalf("served %d, %t, %v; not what came last with priority 9", message.Priority, ok, err)
		}
	}
	for _, want := range slices.Concat(slices.Repeat([]uint8{5}, 20), slices.Repeat([]uint8{0}, 20)) {
		message, ok, err := channel.Get("classic", true)
		if err != nil || !ok || message.Priority != want {
			t.Fatalf("served %d, %t, %v; not %d", message.Priority, ok, err, want)
		}
	}
}
