// Package priorityrabbitmq gives the documents in a queue of RabbitMQ their priorities: it
// publishes them with the priority of their level, and tells the store when they are done.
package priorityrabbitmq
