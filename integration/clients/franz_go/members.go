package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range": kgo.RangeBalancer, "roundrobin": kgo.RoundRobinBalancer,
	"sticky": kgo.StickyBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer,
	"uniform": kgo.StickyBalancer, // what the client asks the broker for in its place
}

type memberFields struct {
	Member              string
	Members             []string
	Group               string
	Topics              []string
	Pattern             string
	Assignors           []string
	InstanceID          *string `json:"instance_id"`
	SessionTimeoutMS    *int    `json:"session_timeout_ms"`
	HeartbeatIntervalMS *int    `json:"heartbeat_interval_ms"`
	MetadataMaxAgeMS    *int    `json:"metadata_max_age_ms"`
	Isolation           string
	Commit              bool
	CommitOnRevoke      bool `json:"commit_on_revoke"`
	Topic               string
	Partition           int32
	Offset              int64
}

func memberCommands(settings *settings) map[string]command {
	members := map[string]*member{}
	return map[string]command{
		"member_start": handler(func(fields memberFields) (any, error) {
			started, err := startMember(settings, fields)
			members[fields.Member] = started
			return nil, err
		}),
		"member_log": handler(func(fields memberFields) (any, error) {
			logs := object{}
			for _, name := range fields.Members {
				logs[name] = members[name].log()
			}
			return object{"members": logs}, nil
		}),
		"member_commit": handler(func(fields memberFields) (any, error) {
			return nil, members[fields.Member].between(commitPolled)
		}),
		"member_seek": handler(func(fields memberFields) (any, error) { return nil, members[fields.Member].seek(fields) }),
		"member_stop": handler(func(fields memberFields) (any, error) {
			return members[fields.Member].end(fields.Commit)
		}),
	}
}

// A member polls until it is ended. What is new since its last log is guarded by its mutex.
type member struct {
	client *kgo.Client
	tasks  chan func()
	done   chan struct{}

	commitsOnRevoke bool

	mutex   sync.Mutex
	records [][4]any
	events  [][2]any
	errors  []string
	owned   map[partition]bool
}

func millis(number int) time.Duration { return time.Duration(number) * time.Millisecond }

func startMember(settings *settings, fields memberFields) (*member, error) {
	m := &member{tasks: make(chan func()), done: make(chan struct{}), owned: map[partition]bool{}}
	m.commitsOnRevoke = fields.CommitOnRevoke
	m.clear()
	options := append(append(isolation(fields.Isolation), settings.group...),
		kgo.ConsumerGroup(fields.Group), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(m.callback("assigned")), kgo.OnPartitionsRevoked(m.callback("revoked")),
		kgo.OnPartitionsLost(m.callback("lost")))
	if m.commitsOnRevoke { // else what is polled while partitions are given up comes behind their commit
		options = append(options, kgo.BlockRebalanceOnPoll())
	}
	if fields.Pattern != "" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(fields.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(fields.Topics...))
	}
	if fields.Assignors != nil {
		var named []kgo.GroupBalancer
		for _, name := range fields.Assignors {
			named = append(named, balancers[name]())
		}
		options = append(options, kgo.Balancers(named...))
	}
	if fields.InstanceID != nil {
		options = append(options, kgo.InstanceID(*fields.InstanceID))
	}
	for _, timed := range []struct {
		value *int
		make  func(time.Duration) []kgo.Opt
	}{
		{fields.SessionTimeoutMS, func(d time.Duration) []kgo.Opt { return []kgo.Opt{kgo.SessionTimeout(d)} }},
		{fields.HeartbeatIntervalMS, func(d time.Duration) []kgo.Opt { return []kgo.Opt{kgo.HeartbeatInterval(d)} }},
		{fields.MetadataMaxAgeMS, func(d time.Duration) []kgo.Opt { // the least age is 5 s unless named, above some greatest
			return []kgo.Opt{kgo.MetadataMaxAge(d), kgo.MetadataMinAge(min(d, 5*time.Second))}
		}},
	} {
		if timed.value != nil {
			options = append(options, timed.make(millis(*timed.value))...)
		}
	}
	client, err := settings.client(options...)
	if err != nil {
		return nil, err
	}
	m.client = client
	go m.run()
	return m, nil
}

// callback notes what the client says of its partitions; cooperative: only the change.
func (m *member) callback(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, client *kgo.Client, topics map[string][]int32) {
		if event == "revoked" && m.commitsOnRevoke {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				m.mutex.Lock()
				m.errors = append(m.errors, errorName(err))
				m.mutex.Unlock()
			}
		}
		partitions := []partition{}
		for topic, numbers := range topics {
			for _, number := range numbers {
				partitions = append(partitions, partition{topic, number})
			}
		}
		sortPartitions(partitions)
		m.mutex.Lock()
		defer m.mutex.Unlock()
		m.events = append(m.events, [2]any{event, partitions})
		for _, each := range partitions {
			if event == "assigned" {
				m.owned[each] = true
			} else {
				delete(m.owned, each)
			}
		}
	}
}

func sortPartitions(partitions []partition) {
	slices.SortFunc(partitions, func(a, b partition) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
	})
}

// run polls; tasks are run between two polls.
func (m *member) run() {
	for {
		select {
		case task := <-m.tasks:
			task()
		case <-m.done:
			return
		default:
			m.poll()
		}
	}
}

func (m *member) poll() {
	ctx, cancel := within(50)
	defer cancel()
	fetches := m.client.PollFetches(ctx)
	if m.commitsOnRevoke {
		defer m.client.AllowRebalance()
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		m.records = append(m.records, [4]any{r.Topic, r.Partition, r.Offset, string(r.Value)})
	})
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			m.errors = append(m.errors, errorName(err))
		}
	})
}

// between runs a task of the client between two polls, and waits for it.
func (m *member) between(task func(client *kgo.Client) error) error {
	result := make(chan error)
	m.tasks <- func() { result <- task(m.client) }
	return <-result
}

func commitPolled(client *kgo.Client) error { return client.CommitUncommittedOffsets(background) }

func (m *member) seek(fields memberFields) error {
	return m.between(func(client *kgo.Client) error {
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
			fields.Topic: {fields.Partition: {Epoch: -1, Offset: fields.Offset}},
		})
		return nil
	})
}

func (m *member) clear() {
	m.records, m.events, m.errors = [][4]any{}, [][2]any{}, []string{}
}

func (m *member) log() object {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	assignment := []partition{}
	for each := range m.owned {
		assignment = append(assignment, each)
	}
	sortPartitions(assignment)
	told := object{"records": m.records, "assignment": assignment, "events": m.events, "errors": m.errors}
	m.clear()
	return told
}

func (m *member) end(commit bool) (any, error) {
	err := m.between(func(client *kgo.Client) error {
		close(m.done)
		if commit {
			return commitPolled(client)
		}
		return nil
	})
	m.client.Close()
	return object{"records": m.log()["records"]}, err
}
