package priorityrabbitmq

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	frameSize   = 131072 // RabbitMQ's frame_max, where the connection has not agreed on one
	headerRoom  = 2048   // what a document's headers get when it waits or is given up
	longestText = 255    // bytes of a name or property
)

// fits returns why a message cannot be sent. One that cannot closes the connection, with all
// that others do on it, and would do so at each try.
func fits(connection *amqp.Connection, exchange, key string, message *amqp.Publishing) error {
	for what, text := range map[string]string{
		"exchange": exchange, "routing key": key, "ContentType": message.ContentType, "ContentEncoding": message.ContentEncoding,
		"CorrelationId": message.CorrelationId, "ReplyTo": message.ReplyTo, "Expiration": message.Expiration,
		"MessageId": message.MessageId, "Type": message.Type, "UserId": message.UserId, "AppId": message.AppId,
	} {
		if len(text) > longestText {
			return fmt.Errorf("%w: the %s has %d bytes, %d are allowed", errRefused, what, len(text), longestText)
		}
	}
	if err := message.Headers.Validate(); err != nil {
		return fmt.Errorf("%w: the headers: %w", errRefused, err)
	}
	size, err := encoded(message.Headers)
	if err != nil {
		return fmt.Errorf("%w: the headers: %w", errRefused, err)
	}
	most := frameSize
	if agreed := connection.Config.FrameSize; agreed > 0 {
		most = agreed
	}
	most -= 12 * (1 + longestText) // of the other properties, and the frame's own
	if _, waited := message.Headers[headerKey]; !waited {
		most -= headerRoom
	}
	if size > most {
		return fmt.Errorf("%w: the headers have %d bytes, %d are allowed", errRefused, size, most)
	}
	return nil
}

// encoded returns how many bytes a valid header takes at most.
func encoded(value any) (size int, err error) {
	switch value := value.(type) {
	case string:
		return 5 + len(value), nil
	case []byte:
		return 5 + len(value), nil
	case []any:
		for _, one := range value {
			more, err := encoded(one)
			if err != nil {
				return 0, err
			}
			size += more
		}
		return 5 + size, nil
	case amqp.Table:
		for name, one := range value {
			more, err := encoded(one)
			if err != nil {
				return 0, err
			}
			if len(name) > longestText {
				return 0, fmt.Errorf("a name has %d bytes, %d are allowed", len(name), longestText)
			}
			size += 1 + len(name) + more
		}
		return 5 + size, nil
	}
	return 9, nil // an int64, the longest of the others
}
