// A meter service: adds up the readings of each meter and commits what it has counted.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP_SERVERS"), ",")...),
		kgo.ConsumerGroup("meters"),
		kgo.ConsumeTopics("readings"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	totals := map[string]int{}
	for {
		fetches := client.PollFetches(ctx)
		if errors.Is(fetches.Err0(), context.Canceled) {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("%s-%d: %v", topic, partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) {
			watts, err := strconv.Atoi(string(record.Value))
			if err != nil {
				log.Printf("not a reading: %q", record.Value)
				return
			}
			meter := string(record.Key)
			totals[meter] += watts
			fmt.Printf("%s %d\n", meter, totals[meter])
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			log.Printf("not committed, which the next commit makes up for: %v", err)
		}
	}
}
