// Package kshimtest has a kshim for tests in Go. Copy this file; it needs `kshim` with its extra `control` on the PATH.
//
//	kshim := kshimtest.Start(t, "--topic", "orders:3")
//	kshim.WaitStable("billing", 1, 10*time.Second)
package kshimtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

var listening = regexp.MustCompile(`Control over HTTP on (\S+)`)

// Kshim is a running kshim that ends with its test. What it refuses fails the test with its sentence.
type Kshim struct {
	// Bootstrap is the address of each broker.
	Bootstrap []string
	// URL is where the HTTP interface is.
	URL string

	t   testing.TB
	mu  sync.Mutex
	log []string
}

// Group is what kshim says of a group, as far as tests mostly need it; Request has all of it.
type Group struct {
	State      string `json:"state"`
	Generation int    `json:"generation"`
	Members    []struct {
		MemberID   string           `json:"member_id"`
		ClientID   string           `json:"client_id"`
		Assignment map[string][]int `json:"assignment"`
	} `json:"members"`
}

// Start starts brokers on free ports, with further options of `kshim serve`.
func Start(t testing.TB, options ...string) *Kshim {
	t.Helper()
	command := exec.Command("kshim", append([]string{"serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"}, options...)...)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kshim := &Kshim{t: t}
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			kshim.mu.Lock()
			kshim.log = append(kshim.log, lines.Text())
			kshim.mu.Unlock()
			if match := listening.FindStringSubmatch(lines.Text()); match != nil {
				found <- match[1]
			}
		}
	}()
	t.Cleanup(func() {
		command.Process.Signal(os.Interrupt)
		<-read
		command.Wait()
		if t.Failed() {
			t.Logf("kshim:\n%s", kshim.Log())
		}
	})
	kshim.URL = <-found
	bootstrap, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("kshim has ended: %v\n%s", err, kshim.Log())
	}
	kshim.Bootstrap = strings.Split(strings.TrimSpace(bootstrap), ",")
	return kshim
}

// Log is what kshim has written to its log.
func (kshim *Kshim) Log() string {
	kshim.mu.Lock()
	defer kshim.mu.Unlock()
	return strings.Join(kshim.log, "\n")
}

// Try makes one request; body and answer may be nil. The error has the sentence of kshim.
func (kshim *Kshim) Try(method, path string, body, answer any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, kshim.URL+path, sent)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		var problem struct{ Detail string }
		if json.Unmarshal(data, &problem) != nil || problem.Detail == "" {
			problem.Detail = response.Status
		}
		return fmt.Errorf("%s", problem.Detail)
	}
	if answer == nil || len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, answer)
}

// Request is Try, and fails the test instead of returning an error.
func (kshim *Kshim) Request(method, path string, body, answer any) {
	kshim.t.Helper()
	if err := kshim.Try(method, path, body, answer); err != nil {
		kshim.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// Reset makes everything as at the start, at the same addresses.
func (kshim *Kshim) Reset() {
	kshim.t.Helper()
	kshim.Request("POST", "/v1/reset", nil, nil)
}

// Produce writes a record.
func (kshim *Kshim) Produce(topic, key, value string) {
	kshim.t.Helper()
	record := map[string]string{"key": key, "value": value}
	kshim.Request("POST", "/v1/topics/"+topic+"/records", map[string]any{"records": []any{record}}, nil)
}

// WaitStable waits until a group is Stable with so many members that all have their assignment.
func (kshim *Kshim) WaitStable(group string, members int, timeout time.Duration) Group {
	kshim.t.Helper()
	return kshim.wait(group, timeout, url.Values{"state": {"Stable"}, "members": {fmt.Sprint(members)}})
}

// WaitGeneration waits until a group is Stable in this generation or a later one.
func (kshim *Kshim) WaitGeneration(group string, generation int, timeout time.Duration) Group {
	kshim.t.Helper()
	return kshim.wait(group, timeout, url.Values{"state": {"Stable"}, "generation": {fmt.Sprint(generation)}})
}

// WaitEmpty waits until a group has no member.
func (kshim *Kshim) WaitEmpty(group string, timeout time.Duration) {
	kshim.t.Helper()
	kshim.wait(group, timeout, url.Values{"state": {"Empty"}})
}

// WaitCommitted waits until this offset of a partition, or a later one, is committed.
func (kshim *Kshim) WaitCommitted(group, topic string, partition int, offset int64, timeout time.Duration) {
	kshim.t.Helper()
	place := url.Values{"topic": {topic}, "partition": {fmt.Sprint(partition)}, "offset": {fmt.Sprint(offset)}}
	kshim.wait(group, timeout, place)
}

// Expel removes a member, by its member, instance or client id.
func (kshim *Kshim) Expel(group, member string) {
	kshim.t.Helper()
	kshim.Request("POST", path(group)+"/expel", map[string]string{"member": member}, nil)
}

// Fault sets a fault, such as {"on": "Heartbeat", "do": {"error": "NOT_COORDINATOR"}, "when": {"times": 2}}.
func (kshim *Kshim) Fault(rule map[string]any) {
	kshim.t.Helper()
	kshim.Request("POST", "/v1/faults", rule, nil)
}

// AssertFaultsUsed fails the test unless every fault has fired.
func (kshim *Kshim) AssertFaultsUsed() {
	kshim.t.Helper()
	kshim.Request("POST", "/v1/faults/assert-used", nil, nil)
}

// Advance moves the brokers' clock ahead.
func (kshim *Kshim) Advance(duration time.Duration) {
	kshim.t.Helper()
	kshim.Request("POST", "/v1/clock/advance", map[string]float64{"seconds": duration.Seconds()}, nil)
}

// Node stops, starts, kills or restarts a broker.
func (kshim *Kshim) Node(id int, verb string) {
	kshim.t.Helper()
	kshim.Request("POST", fmt.Sprintf("/v1/nodes/%d/%s", id, verb), nil, nil)
}

func (kshim *Kshim) wait(group string, timeout time.Duration, what url.Values) (found Group) {
	kshim.t.Helper()
	what.Set("timeout", fmt.Sprint(timeout.Seconds()))
	kshim.Request("GET", path(group)+"/wait?"+what.Encode(), nil, &found)
	return found
}

func path(group string) string {
	return "/v1/groups/" + url.PathEscape(group)
}
