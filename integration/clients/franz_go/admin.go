package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type adminFields struct {
	Topic      string
	Topics     []json.RawMessage
	Count      int
	Set        map[string]string
	Delete     []string
	Offsets    []position
	Group      string
	Groups     []string
	Partitions []partition
}

type adminCommand func(admin *kadm.Client, fields adminFields) (any, error)

func adminCommands(settings *settings) map[string]command {
	commands := map[string]command{}
	for name, run := range map[string]adminCommand{
		"create_topics": createTopics, "create_partitions": createPartitions, "delete_topics": deleteTopics,
		"list_topics": listTopics, "describe_topic": describeTopic, "describe_cluster": describeCluster,
		"describe_configs": describeConfigs, "alter_configs": alterConfigs, "delete_records": deleteRecords,
		"list_groups": listGroups, "describe_group": describeGroup, "group_offsets": groupOffsets,
		"alter_group_offsets": alterGroupOffsets, "delete_group_offsets": deleteGroupOffsets, "delete_groups": deleteGroups,
	} {
		commands[name] = handler(func(fields adminFields) (any, error) {
			admin, err := settings.adminClient()
			if err != nil {
				return nil, err
			}
			return run(admin, fields)
		})
	}
	return commands
}

var background = context.Background()

func createTopics(admin *kadm.Client, fields adminFields) (any, error) {
	names := map[string]string{}
	for _, text := range fields.Topics {
		var topic struct {
			Name       string
			Partitions int32
			Configs    map[string]*string
		}
		if err := json.Unmarshal(text, &topic); err != nil {
			return nil, err
		}
		created, err := admin.CreateTopic(background, topic.Partitions, -1, topic.Configs, topic.Name)
		if err != nil && created.Err == nil {
			return nil, err
		}
		names[topic.Name] = errorName(created.Err)
	}
	return object{"topics": names}, nil
}

func createPartitions(admin *kadm.Client, fields adminFields) (any, error) {
	answers, err := admin.UpdatePartitions(background, fields.Count, fields.Topic)
	if err != nil {
		return nil, err
	}
	return nil, answers.Error()
}

func deleteTopics(admin *kadm.Client, fields adminFields) (any, error) {
	topics := make([]string, len(fields.Topics))
	for i, text := range fields.Topics {
		if err := json.Unmarshal(text, &topics[i]); err != nil {
			return nil, err
		}
	}
	answers, err := admin.DeleteTopics(background, topics...)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for topic, deleted := range answers {
		names[topic] = errorName(deleted.Err)
	}
	return object{"topics": names}, nil
}

func listTopics(admin *kadm.Client, _ adminFields) (any, error) {
	topics, err := admin.ListTopicsWithInternal(background)
	if err != nil {
		return nil, err
	}
	return object{"topics": topics.Names()}, nil
}

func describeTopic(admin *kadm.Client, fields adminFields) (any, error) {
	topics, err := admin.ListTopics(background, fields.Topic)
	if err != nil {
		return nil, err
	}
	topic := topics[fields.Topic]
	if topic.Err != nil {
		return nil, topic.Err
	}
	partitions := []object{}
	for _, each := range topic.Partitions.Sorted() {
		partitions = append(partitions, object{
			"partition": each.Partition, "leader": each.Leader, "replicas": each.Replicas, "isr": each.ISR,
		})
	}
	return object{"partitions": partitions}, nil
}

func describeCluster(admin *kadm.Client, _ adminFields) (any, error) {
	brokers, err := admin.ListBrokers(background)
	if err != nil {
		return nil, err
	}
	nodes := []object{}
	for _, broker := range brokers {
		nodes = append(nodes, object{"id": broker.NodeID, "host": broker.Host, "port": broker.Port})
	}
	return object{"nodes": nodes}, nil
}

func describeConfigs(admin *kadm.Client, fields adminFields) (any, error) {
	resources, err := admin.DescribeTopicConfigs(background, fields.Topic)
	if err != nil {
		return nil, err
	}
	topic, err := resources.On(fields.Topic, nil)
	if err = errors.Join(err, topic.Err); err != nil {
		return nil, err
	}
	configs := map[string]*string{}
	for _, each := range topic.Configs {
		configs[each.Key] = each.Value
	}
	return object{"configs": configs}, nil
}

func alterConfigs(admin *kadm.Client, fields adminFields) (any, error) {
	var changes []kadm.AlterConfig
	for name, value := range fields.Set {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range fields.Delete {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	answers, err := admin.AlterTopicConfigs(background, changes, fields.Topic)
	for _, each := range answers {
		err = errors.Join(err, each.Err)
	}
	return nil, err
}

func kadmOffsets(positions []position) kadm.Offsets {
	offsets := kadm.Offsets{}
	for _, each := range positions {
		offsets.Add(kadm.Offset{Topic: each.topic, Partition: each.partition, At: each.offset, LeaderEpoch: -1})
	}
	return offsets
}

func deleteRecords(admin *kadm.Client, fields adminFields) (any, error) {
	answers, err := admin.DeleteRecords(background, kadmOffsets(fields.Offsets))
	if err = errors.Join(err, answers.Error()); err != nil {
		return nil, err
	}
	lowWatermarks := []position{}
	answers.Each(func(each kadm.DeleteRecordsResponse) {
		lowWatermarks = append(lowWatermarks, position{each.Topic, each.Partition, each.LowWatermark})
	})
	return object{"low_watermarks": lowWatermarks}, nil
}

func listGroups(admin *kadm.Client, _ adminFields) (any, error) {
	groups, err := admin.ListGroups(background)
	if err != nil {
		return nil, err
	}
	return object{"groups": groups.Groups()}, nil
}

func describeGroup(admin *kadm.Client, fields adminFields) (any, error) {
	described, err := admin.DescribeGroups(background, fields.Group)
	group := described[fields.Group]
	if errors.Is(group.Err, kerr.GroupIDNotFound) { // DescribeGroups v6 says so; below that the state is Dead
		return describeConsumerGroup(admin, fields.Group)
	}
	if err = errors.Join(err, group.Err); err != nil {
		return nil, err
	}
	members := []object{}
	for _, member := range group.Members {
		partitions := []partition{}
		if assigned, ok := member.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				for _, number := range topic.Partitions {
					partitions = append(partitions, partition{topic.Topic, number})
				}
			}
		}
		members = append(members, object{
			"member_id": member.MemberID, "instance_id": member.InstanceID, "client_id": member.ClientID,
			"partitions": partitions,
		})
	}
	return object{"state": group.State, "assignor": group.Protocol, "members": members}, nil
}

// describeConsumerGroup asks for the group as one of KIP-848.
func describeConsumerGroup(admin *kadm.Client, name string) (any, error) {
	described, err := admin.DescribeConsumerGroups(background, name)
	group := described[name]
	if errors.Is(group.Err, kerr.GroupIDNotFound) {
		return object{"state": "Dead", "assignor": "", "members": []object{}}, nil
	}
	if err = errors.Join(err, group.Err); err != nil {
		return nil, err
	}
	members := []object{}
	for _, member := range group.Members {
		partitions := []partition{}
		member.Assignment.Each(func(topic string, number int32) {
			partitions = append(partitions, partition{topic, number})
		})
		members = append(members, object{
			"member_id": member.MemberID, "instance_id": member.InstanceID, "client_id": member.ClientID,
			"partitions": partitions,
		})
	}
	return object{"state": group.State, "assignor": group.AssignorName, "members": members}, nil
}

func groupOffsets(admin *kadm.Client, fields adminFields) (any, error) {
	committed, err := admin.FetchOffsets(background, fields.Group)
	if err = errors.Join(err, committed.Error()); err != nil {
		return nil, err
	}
	offsets := []position{}
	committed.Each(func(each kadm.OffsetResponse) {
		if each.At >= 0 {
			offsets = append(offsets, position{each.Topic, each.Partition, each.At})
		}
	})
	return object{"offsets": offsets}, nil
}

func alterGroupOffsets(admin *kadm.Client, fields adminFields) (any, error) {
	return nil, admin.CommitAllOffsets(background, fields.Group, kadmOffsets(fields.Offsets))
}

func deleteGroupOffsets(admin *kadm.Client, fields adminFields) (any, error) {
	topics := kadm.TopicsSet{}
	for _, each := range fields.Partitions {
		topics.Add(each.topic, each.number)
	}
	answers, err := admin.DeleteOffsets(background, fields.Group, topics)
	return nil, errors.Join(err, answers.Error())
}

func deleteGroups(admin *kadm.Client, fields adminFields) (any, error) {
	answers, err := admin.DeleteGroups(background, fields.Groups...)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for group, deleted := range answers {
		names[group] = errorName(deleted.Err)
	}
	return object{"groups": names}, nil
}
