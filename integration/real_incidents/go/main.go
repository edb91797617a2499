// A service that consumes with franz-go until it is stopped, and then closes.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var stopping atomic.Bool
var work atomic.Int64

func main() {
	settings := map[string]string{}
	for _, line := range strings.Split(os.Getenv("SERVICE"), "\n") {
		if key, value, found := strings.Cut(line, "="); found {
			settings[key] = value
		}
	}
	go read()
	client, err := kgo.NewClient(options(settings)...)
	if err != nil {
		panic(err)
	}
	for !stopping.Load() {
		wait, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		fetches := client.PollRecords(wait, number(settings["max.poll.records"]))
		cancel()
		for _, failed := range fetches.Errors() {
			if failed.Err != context.DeadlineExceeded {
				fmt.Fprintln(os.Stderr, failed.Err)
			}
		}
		ms := work.Swap(0)
		if fetches.NumRecords() > 0 {
			ms += int64(number(settings["work.ms"]))
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

func options(settings map[string]string) []kgo.Opt {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
		"uniform": kgo.StickyBalancer(), // how the broker's is asked for
	}
	made := []kgo.Opt{
		kgo.SeedBrokers(settings["bootstrap.servers"]),
		kgo.ConsumerGroup(settings["group.id"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RebalanceTimeout(duration(settings["max.poll.interval.ms"])),
		kgo.AutoCommitInterval(duration(settings["auto.commit.interval.ms"])),
		kgo.MetadataMaxAge(duration(settings["metadata.max.age.ms"])),
		kgo.BlockRebalanceOnPoll(),
	}
	if settings["group.protocol"] == "consumer" {
		made = append(made, kgo.ServerSideBalancer(), kgo.Balancers(balancers[settings["group.remote.assignor"]]))
	} else {
		made = append(made,
			kgo.SessionTimeout(duration(settings["session.timeout.ms"])),
			kgo.HeartbeatInterval(duration(settings["heartbeat.interval.ms"])),
			kgo.Balancers(balancers[settings["partition.assignment.strategy"]]))
	}
	if id := settings["client.id"]; id != "" {
		made = append(made, kgo.ClientID(id))
	}
	if instance := settings["group.instance.id"]; instance != "" {
		made = append(made, kgo.InstanceID(instance))
	}
	if pattern := settings["pattern"]; pattern != "" {
		return append(made, kgo.ConsumeRegex(), kgo.ConsumeTopics(pattern))
	}
	return append(made, kgo.ConsumeTopics(strings.Split(settings["topics"], ",")...))
}

func read() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "stop" {
		work.Store(int64(number(strings.TrimPrefix(lines.Text(), "work "))))
	}
	stopping.Store(true)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func duration(milliseconds string) time.Duration {
	return time.Duration(number(milliseconds)) * time.Millisecond
}
