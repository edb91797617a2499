package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consume is a consumer as applications have it, for `kshim conform-client`: the loop of franz-go's README, with automatic
// commits. Errors of a poll end it as there, but for those of the group session, which the client begins anew by itself.
func consume() {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Getenv("KSHIM_BOOTSTRAP_SERVERS"), ",")...),
		kgo.ConsumerGroup(os.Getenv("KSHIM_GROUP")), kgo.ConsumeTopics(os.Getenv("KSHIM_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(500 * time.Millisecond),
	}
	if instance := os.Getenv("KSHIM_INSTANCE"); instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	for {
		fetches := client.PollFetches(context.Background())
		for _, err := range fetches.Errors() {
			var session *kgo.ErrGroupSession
			if !errors.As(err.Err, &session) {
				panic(err.Err)
			}
			fmt.Fprintln(os.Stderr, err.Err)
		}
	}
}
