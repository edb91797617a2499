// The franz-go client behind the driver contract of docs/design/clients.md: one JSON object a line in, one out.
//
// Commands are carried out by the main goroutine; every member and every load has goroutines of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A command decodes its own fields; what it returns becomes the answer's "ok".
type command func(fields json.RawMessage) (any, error)

type object map[string]any

// unsupported is what franz-go cannot express.
type unsupported string

func (reason unsupported) Error() string { return string(reason) }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "consume" {
		consume()
	}
	var settings settings
	commands := map[string]command{"open": settings.open}
	for _, family := range []map[string]command{
		adminCommands(&settings), dataCommands(&settings), memberCommands(&settings), transactionCommands(&settings),
	} {
		for name, run := range family {
			commands[name] = run
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	answers := json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for lines.Scan() {
		if err := answers.Encode(answer(commands, lines.Bytes())); err != nil {
			panic(err)
		}
	}
}

func answer(commands map[string]command, line []byte) object {
	var named struct{ Do string }
	if err := json.Unmarshal(line, &named); err != nil {
		panic(err)
	}
	run, known := commands[named.Do]
	if !known {
		return object{"unsupported": "franz-go has nothing that answers " + named.Do}
	}
	ok, err := run(line)
	var reason unsupported
	switch {
	case errors.As(err, &reason):
		return object{"unsupported": string(reason)}
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", named.Do, err)
		return object{"error": errorName(err), "message": err.Error()}
	case ok == nil:
		return object{"ok": object{}}
	}
	return object{"ok": ok}
}

// handler makes a command of a function that takes its fields decoded.
func handler[F any](run func(fields F) (any, error)) command {
	return func(line json.RawMessage) (any, error) {
		var fields F
		if err := json.Unmarshal(line, &fields); err != nil {
			return nil, err
		}
		return run(fields)
	}
}

// errorName is Kafka's constant if the error is Kafka's, "NONE" if there is none, else the kind of error.
func errorName(err error) string {
	if err == nil {
		return "NONE"
	}
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}

// within is a context for something that has an end of its own, or fails.
func within(timeoutMS int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(timeoutMS)*time.Millisecond)
}

// A partition is [topic, partition] on the wire.
type partition struct {
	topic  string
	number int32
}

func (p partition) MarshalJSON() ([]byte, error) { return json.Marshal([]any{p.topic, p.number}) }

func (p *partition) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.topic, &p.number})
}

// A position is [topic, partition, offset] on the wire.
type position struct {
	topic     string
	partition int32
	offset    int64
}

func (p position) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.topic, p.partition, p.offset})
}

func (p *position) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.topic, &p.partition, &p.offset})
}
