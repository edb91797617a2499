package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type transactionFields struct {
	Producer        string
	TransactionalID string `json:"transactional_id"`
	TimeoutMS       *int   `json:"timeout_ms"`
	Topic           string
	Records         []record
	Group           string
	Offsets         []position
}

type transactional struct {
	id     string
	client *kgo.Client
}

func transactionCommands(settings *settings) map[string]command {
	producers := map[string]transactional{}
	withProducer := func(run func(producer transactional, fields transactionFields) (any, error)) command {
		return handler(func(fields transactionFields) (any, error) { return run(producers[fields.Producer], fields) })
	}
	return map[string]command{
		"transactional_open": handler(func(fields transactionFields) (any, error) {
			producer, err := openTransactional(settings, fields)
			producers[fields.Producer] = producer
			return nil, err
		}),
		"transaction_begin": withProducer(func(producer transactional, _ transactionFields) (any, error) {
			return nil, producer.client.BeginTransaction()
		}),
		"transaction_send": withProducer(func(producer transactional, fields transactionFields) (any, error) {
			return send(producer.client, fields.Topic, fields.Records)
		}),
		"transaction_offsets": withProducer(func(producer transactional, fields transactionFields) (any, error) {
			return nil, producer.sendOffsets(fields)
		}),
		"transaction_commit": withProducer(func(producer transactional, _ transactionFields) (any, error) {
			return nil, producer.client.EndTransaction(background, kgo.TryCommit)
		}),
		"transaction_abort": withProducer(func(producer transactional, _ transactionFields) (any, error) {
			return nil, producer.client.EndTransaction(background, kgo.TryAbort)
		}),
		"transactional_close": withProducer(func(producer transactional, _ transactionFields) (any, error) {
			producer.client.Close()
			return nil, nil
		}),
		"copy": handler(func(fields copyFields) (any, error) { return runCopy(settings, fields) }),
	}
}

func openTransactional(settings *settings, fields transactionFields) (transactional, error) {
	options := []kgo.Opt{kgo.TransactionalID(fields.TransactionalID), partitioner}
	if fields.TimeoutMS != nil {
		options = append(options, kgo.TransactionTimeout(millis(*fields.TimeoutMS)))
	}
	client, err := settings.client(options...)
	if err != nil {
		return transactional{}, err
	}
	if _, _, err = client.ProducerID(background); err != nil { // InitProducerId, else with the first record
		client.Close()
		return transactional{}, err
	}
	return transactional{fields.TransactionalID, client}, nil
}

// sendOffsets asks for what a GroupTransactSession asks when it ends: the client has no call for offsets without one.
func (t transactional) sendOffsets(fields transactionFields) error {
	id, epoch, err := t.client.ProducerID(background)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = t.id, id, epoch, fields.Group
	added, err := add.RequestWith(background, t.client)
	if err = errors.Join(err, codeOf(added)); err != nil {
		return err
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group = t.id, id, epoch, fields.Group
	for _, each := range fields.Offsets {
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic = each.topic
		partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = each.partition, each.offset
		topic.Partitions = append(topic.Partitions, partition)
		commit.Topics = append(commit.Topics, topic)
	}
	committed, err := commit.RequestWith(background, t.client)
	if err != nil {
		return err
	}
	for _, topic := range committed.Topics {
		for _, partition := range topic.Partitions {
			err = errors.Join(err, kerr.ErrorForCode(partition.ErrorCode))
		}
	}
	return err
}

func codeOf(answer *kmsg.AddOffsetsToTxnResponse) error {
	if answer == nil {
		return nil
	}
	return kerr.ErrorForCode(answer.ErrorCode)
}

type copyFields struct {
	Source          string
	Target          string
	Group           string
	TransactionalID string `json:"transactional_id"`
	Count           int
	TimeoutMS       int `json:"timeout_ms"`
	AbortEvery      int `json:"abort_every"`
}

// A copying is one run of the exactly-once copy.
type copying struct {
	fields                     copyFields
	session                    *kgo.GroupTransactSession
	copied, committed, aborted int
}

func runCopy(settings *settings, fields copyFields) (any, error) {
	options := append(append([]kgo.Opt{}, settings.common...),
		kgo.ConsumerGroup(fields.Group), kgo.ConsumeTopics(fields.Source), kgo.TransactionalID(fields.TransactionalID),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	ctx, cancel := within(fields.TimeoutMS)
	defer cancel()
	c := copying{fields: fields, session: session}
	for c.copied < fields.Count && ctx.Err() == nil {
		fetches := session.PollRecords(ctx, 100)
		if records := fetches.Records(); len(records) > 0 {
			if err := c.transact(records); err != nil {
				return nil, err
			}
		}
	}
	return object{"copied": c.copied, "committed": c.committed, "aborted": c.aborted}, nil
}

// transact copies these in one transaction. The session sends the offsets and goes back to the committed ones on abort.
func (c *copying) transact(records []*kgo.Record) error {
	if err := c.session.Begin(); err != nil {
		return err
	}
	var sent []*kgo.Record
	for _, each := range records {
		value := append(append([]byte{}, each.Value...), '!')
		sent = append(sent, &kgo.Record{Topic: c.fields.Target, Key: each.Key, Value: value})
	}
	try := kgo.TryCommit
	if c.session.ProduceSync(background, sent...).FirstErr() != nil {
		try = kgo.TryAbort
	}
	if c.fields.AbortEvery > 0 && (c.committed+c.aborted+1)%c.fields.AbortEvery == 0 {
		try = kgo.TryAbort
	}
	committed, err := c.session.End(background, try)
	if err != nil {
		return err
	}
	if committed {
		c.copied += len(records)
		c.committed++
	} else {
		c.aborted++
	}
	return nil
}
