package main

import "github.com/twmb/franz-go/pkg/kgo"

type transactionFields struct {
	Producer        string
	TransactionalID string `json:"transactional_id"`
	TimeoutMS       *int   `json:"timeout_ms"`
	Topic           string
	Records         []record
}

func transactionCommands(settings *settings) map[string]command {
	producers := map[string]*kgo.Client{}
	withProducer := func(run func(producer *kgo.Client, fields transactionFields) (any, error)) command {
		return handler(func(fields transactionFields) (any, error) { return run(producers[fields.Producer], fields) })
	}
	return map[string]command{
		"transactional_open": handler(func(fields transactionFields) (any, error) {
			producer, err := openTransactional(settings, fields)
			producers[fields.Producer] = producer
			return nil, err
		}),
		"transaction_begin": withProducer(func(producer *kgo.Client, _ transactionFields) (any, error) {
			return nil, producer.BeginTransaction()
		}),
		"transaction_send": withProducer(func(producer *kgo.Client, fields transactionFields) (any, error) {
			return send(producer, fields.Topic, fields.Records)
		}),
		"transaction_offsets": handler(func(transactionFields) (any, error) {
			return nil, unsupported("franz-go sends offsets only as those of a GroupTransactSession's own consumer")
		}),
		"transaction_commit": withProducer(func(producer *kgo.Client, _ transactionFields) (any, error) {
			return nil, producer.EndTransaction(background, kgo.TryCommit)
		}),
		"transaction_abort": withProducer(func(producer *kgo.Client, _ transactionFields) (any, error) {
			return nil, producer.EndTransaction(background, kgo.TryAbort)
		}),
		"transactional_close": withProducer(func(producer *kgo.Client, _ transactionFields) (any, error) {
			producer.Close()
			return nil, nil
		}),
		"copy": handler(func(fields copyFields) (any, error) { return runCopy(settings, fields) }),
	}
}

func openTransactional(settings *settings, fields transactionFields) (*kgo.Client, error) {
	options := []kgo.Opt{kgo.TransactionalID(fields.TransactionalID), partitioner}
	if fields.TimeoutMS != nil {
		options = append(options, kgo.TransactionTimeout(millis(*fields.TimeoutMS)))
	}
	client, err := settings.client(options...)
	if err != nil {
		return nil, err
	}
	if _, _, err = client.ProducerID(background); err != nil { // InitProducerId, else with the first record
		client.Close()
		return nil, err
	}
	return client, nil
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
	options := append(append(append([]kgo.Opt{}, settings.common...), settings.group...),
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
