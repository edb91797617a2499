package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A record as a command has it.
type record struct {
	Value, Key *string
	Partition  *int32
	Timestamp  *int64
	Headers    [][2]*string
}

func (r record) forTopic(topic string) *kgo.Record {
	made := &kgo.Record{Topic: topic, Value: optional(r.Value), Key: optional(r.Key), Partition: -1}
	if r.Partition != nil {
		made.Partition = *r.Partition
	}
	if r.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*r.Timestamp)
	}
	for _, header := range r.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: *header[0], Value: optional(header[1])})
	}
	return made
}

func optional(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func text(value []byte) *string {
	if value == nil {
		return nil
	}
	text := string(value)
	return &text
}

// chosen lets a record name its partition, which franz-go offers for all records of a client or none; the others go
// where the client's default partitioner puts them.
type chosen struct{ kgo.Partitioner }

type chosenOfTopic struct{ kgo.TopicBackupPartitioner }

func (c chosen) ForTopic(topic string) kgo.TopicPartitioner {
	return chosenOfTopic{c.Partitioner.ForTopic(topic).(kgo.TopicBackupPartitioner)}
}

func (c chosenOfTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || c.TopicBackupPartitioner.RequiresConsistency(r)
}

func (c chosenOfTopic) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return c.TopicBackupPartitioner.PartitionByBackup(r, n, backup)
}

var partitioner = kgo.RecordPartitioner(chosen{kgo.UniformBytesPartitioner(64<<10, true, true, nil)})

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func idempotence(wanted *bool) []kgo.Opt {
	if wanted != nil && !*wanted {
		return []kgo.Opt{kgo.DisableIdempotentWrite()}
	}
	return nil
}

func isolation(level string) []kgo.Opt {
	if level == "read_committed" {
		return []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted())}
	}
	return nil
}

func dataCommands(settings *settings) map[string]command {
	loads := map[string]*load{}
	return map[string]command{
		"produce": handler(func(fields produceFields) (any, error) { return produce(settings, fields) }),
		"read":    handler(func(fields readFields) (any, error) { return read(settings, fields) }),
		"offsets": handler(func(fields offsetsFields) (any, error) { return offsets(settings, fields) }),
		"load_start": handler(func(fields loadFields) (any, error) {
			started, err := startLoad(settings, fields)
			loads[fields.Load] = started
			return nil, err
		}),
		"load_stop": handler(func(fields loadFields) (any, error) { return loads[fields.Load].end(), nil }),
	}
}

type produceFields struct {
	Topic       string
	Records     []record
	Compression string
	Idempotent  *bool
}

func produce(settings *settings, fields produceFields) (any, error) {
	options := append(idempotence(fields.Idempotent), partitioner)
	if fields.Compression != "" {
		options = append(options, kgo.ProducerBatchCompression(codecs[fields.Compression]))
	}
	client, err := settings.client(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return send(client, fields.Topic, fields.Records)
}

// send produces all and waits for all; where each was placed, in the order of the records.
func send(client *kgo.Client, topic string, records []record) (any, error) {
	made := make([]*kgo.Record, len(records))
	for i, each := range records {
		made[i] = each.forTopic(topic)
	}
	if err := client.ProduceSync(background, made...).FirstErr(); err != nil {
		return nil, err
	}
	placed := make([][2]int64, len(made))
	for i, each := range made {
		placed[i] = [2]int64{int64(each.Partition), each.Offset}
	}
	return object{"placed": placed}, nil
}

type readFields struct {
	Topic     string
	Starts    map[string]any
	Count     int
	TimeoutMS int `json:"timeout_ms"`
	Isolation string
}

func read(settings *settings, fields readFields) (any, error) {
	starts := map[int32]kgo.Offset{}
	for name, start := range fields.Starts {
		number, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return nil, err
		}
		switch start := start.(type) {
		case float64:
			starts[int32(number)] = kgo.NewOffset().At(int64(start))
		case string:
			starts[int32(number)] = map[string]kgo.Offset{
				"beginning": kgo.NewOffset().AtStart(), "end": kgo.NewOffset().AtEnd(),
			}[start]
		default:
			return nil, fmt.Errorf("start %v", start)
		}
	}
	options := append(isolation(fields.Isolation),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{fields.Topic: starts}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	client, err := settings.client(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := within(fields.TimeoutMS)
	defer cancel()
	records := []object{}
	for len(records) < fields.Count && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(each *kgo.Record) { records = append(records, readAnswer(each)) })
		if err := fetches.Err0(); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return object{"records": records}, nil
}

func readAnswer(r *kgo.Record) object {
	headers := make([][2]*string, len(r.Headers))
	for i, header := range r.Headers {
		headers[i] = [2]*string{&header.Key, text(header.Value)}
	}
	return object{
		"partition": r.Partition, "offset": r.Offset, "timestamp": r.Timestamp.UnixMilli(),
		"key": text(r.Key), "value": text(r.Value), "headers": headers,
	}
}

type offsetsFields struct {
	Topic      string
	Partitions []int32
	At         any
	Isolation  string
}

func offsets(settings *settings, fields offsetsFields) (any, error) {
	admin, err := settings.adminClient()
	if err != nil {
		return nil, err
	}
	var listed kadm.ListedOffsets
	switch at := fields.At.(type) {
	case float64:
		listed, err = admin.ListOffsetsAfterMilli(background, int64(at), fields.Topic)
	default:
		list := admin.ListEndOffsets
		if at == "beginning" {
			list = admin.ListStartOffsets
		} else if fields.Isolation == "read_committed" {
			list = admin.ListCommittedOffsets
		}
		listed, err = list(background, fields.Topic)
	}
	if err != nil {
		return nil, err
	}
	found := map[int32]*int64{}
	for _, number := range fields.Partitions {
		each, ok := listed.Lookup(fields.Topic, number)
		if !ok {
			return nil, fmt.Errorf("no offset listed for %s-%d", fields.Topic, number)
		}
		if each.Err != nil {
			return nil, each.Err
		}
		found[number] = &each.Offset
		if _, byTime := fields.At.(float64); byTime && each.Timestamp < 0 {
			found[number] = nil // none so late: kadm then gives the end offset, without a timestamp
		}
	}
	return object{"offsets": found}, nil
}

type loadFields struct {
	Load       string
	Topic      string
	Rate       float64
	Idempotent *bool
}

// A load produces numbers until it is ended.
type load struct {
	client *kgo.Client
	cancel context.CancelFunc
	done   sync.WaitGroup

	mutex                sync.Mutex
	acknowledged, failed []int
}

func startLoad(settings *settings, fields loadFields) (*load, error) {
	client, err := settings.client(idempotence(fields.Idempotent)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(background)
	started := &load{client: client, cancel: cancel, acknowledged: []int{}, failed: []int{}}
	started.done.Add(1)
	go started.run(ctx, fields.Topic, fields.Rate)
	return started, nil
}

func (l *load) run(ctx context.Context, topic string, rate float64) {
	defer l.done.Done()
	ticks := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticks.Stop()
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		value := []byte(strconv.Itoa(number))
		l.client.Produce(background, &kgo.Record{Topic: topic, Key: value, Value: value}, func(_ *kgo.Record, err error) {
			l.mutex.Lock()
			defer l.mutex.Unlock()
			if err == nil {
				l.acknowledged = append(l.acknowledged, number)
			} else {
				l.failed = append(l.failed, number)
			}
		})
	}
}

func (l *load) end() object {
	l.cancel()
	l.done.Wait()
	_ = l.client.Flush(background) // fails only with its context
	l.client.Close()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return object{"acknowledged": l.acknowledged, "failed": l.failed}
}
