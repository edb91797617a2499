package kshimtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

func billing(t *testing.T, kshim *Kshim) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(kshim.Bootstrap...),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestAnOrderIsBilledThoughTheCommitIsRefused(t *testing.T) {
	kshim := Start(t, "--topic", "orders:1")
	kshim.Produce("orders", "k", "one coffee")
	kshim.Fault(map[string]any{
		"on": "OffsetCommit", "match": map[string]string{"group": "billing"},
		"do": map[string]string{"error": "COORDINATOR_LOAD_IN_PROGRESS"}, "when": map[string]int{"times": 1},
	})
	client := billing(t, kshim)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	records := client.PollFetches(ctx).Records()
	if len(records) != 1 || string(records[0].Value) != "one coffee" {
		t.Fatalf("unexpected records: %v", records)
	}
	for client.CommitRecords(ctx, records...) != nil && ctx.Err() == nil {
	}
	kshim.WaitCommitted("billing", "orders", 0, 1, patience)
	kshim.AssertFaultsUsed()
	client.Close()
	kshim.WaitEmpty("billing", patience)
}

func TestAMemberThatIsExpelledComesBack(t *testing.T) {
	kshim := Start(t, "--topic", "orders:1")
	billing(t, kshim)
	first := kshim.WaitStable("billing", 1, patience)
	kshim.Expel("billing", first.Members[0].MemberID)
	second := kshim.WaitGeneration("billing", first.Generation+1, patience)
	if second.Members[0].MemberID == first.Members[0].MemberID {
		t.Fatal("the member has kept its id")
	}
}

func TestWhatIsWaitedForInVainIsExplained(t *testing.T) {
	kshim := Start(t)
	err := kshim.Try("GET", "/v1/groups/nobody/wait?members=1&timeout=0.05", nil, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "group nobody is Dead") {
		t.Fatalf("unexpected error: %v", err)
	}
}
