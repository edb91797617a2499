package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// settings are what "open" said; all clients are made with them.
type settings struct {
	common []kgo.Opt
	group  []kgo.Opt
	admin  *kadm.Client
}

type security struct {
	Protocol, CA, Certificate, Key, Mechanism, Username, Password string
}

func (s *settings) open(line json.RawMessage) (any, error) {
	var fields struct {
		Bootstrap     string
		Security      *security
		GroupProtocol string `json:"group_protocol"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, err
	}
	s.close()
	s.common = []kgo.Opt{
		kgo.SeedBrokers(fields.Bootstrap),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	s.group = nil
	if fields.GroupProtocol == "consumer" {
		s.group = []kgo.Opt{kgo.ServerSideBalancer()}
	}
	if fields.Security != nil {
		secured, err := fields.Security.options()
		if err != nil {
			return nil, err
		}
		s.common = append(s.common, secured...)
	}
	return object{"client": "franz-go", "version": version()}, nil
}

// version is the client's, as it was linked.
func version() string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version[1:]
		}
	}
	return "unknown"
}

func (s security) options() ([]kgo.Opt, error) {
	var options []kgo.Opt
	if s.Protocol == "SSL" || s.Protocol == "SASL_SSL" {
		config, err := s.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch s.Mechanism {
	case "":
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("mechanism %q", s.Mechanism)
	}
	return options, nil
}

func (s security) tls() (*tls.Config, error) {
	config := &tls.Config{}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", s.CA)
		}
	}
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// client is a new one, with the settings of "open" and these.
func (s *settings) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{}, s.common...), options...)...)
}

// adminClient is the one for all admin commands, made on first use.
func (s *settings) adminClient() (*kadm.Client, error) {
	if s.admin == nil {
		client, err := s.client()
		if err != nil {
			return nil, err
		}
		s.admin = kadm.NewClient(client)
	}
	return s.admin, nil
}

func (s *settings) close() {
	if s.admin != nil {
		s.admin.Close()
		s.admin = nil
	}
}
