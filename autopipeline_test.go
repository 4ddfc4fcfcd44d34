package priority_test

import (
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
)

// go-redis has AutoPipeliners since v9.22, and the module supports older ones. So the tests
// look for them; on an older go-redis they use the client itself in their place.
var _, hasAutoPipeline = reflect.TypeFor[*redis.Client]().MethodByName("AutoPipeline")

// autoPipeline returns an AutoPipeliner of a client, whose callers wait for their answers.
func autoPipeline(t testing.TB, client priority.RedisClient) priority.RedisClient {
	return newPipeliner(t, client, "AutoPipelineWithOptions", nil)
}

// asyncAutoPipeline returns one whose commands wait only when they are asked.
func asyncAutoPipeline(t testing.TB, client priority.RedisClient) priority.RedisClient {
	return newPipeliner(t, client, "AsyncAutoPipelineWithOptions", nil)
}

// newPipeliner calls a client's method that takes AutoPipelineOptions, of which it sets
// some fields.
func newPipeliner(t testing.TB, client priority.RedisClient, method string, options map[string]int) priority.RedisClient {
	t.Helper()
	if !hasAutoPipeline {
		return client
	}
	call := reflect.ValueOf(client).MethodByName(method)
	argument := reflect.Zero(call.Type().In(0)) // nil: the defaults
	if options != nil {
		argument = reflect.New(call.Type().In(0).Elem())
	}
	for name, value := range options {
		argument.Elem().FieldByName(name).SetInt(int64(value))
	}
	returned := call.Call([]reflect.Value{argument})
	if err, _ := returned[1].Interface().(error); err != nil {
		t.Fatal(err)
	}
	return returned[0].Interface().(priority.RedisClient)
}

// withPipelinePool bounds the connections of pipelines, where go-redis has a pool for them.
func withPipelinePool[Options any](size int, options *Options) *Options {
	if field := reflect.ValueOf(options).Elem().FieldByName("PipelinePoolSize"); field.IsValid() {
		field.SetInt(int64(size))
	}
	return options
}
