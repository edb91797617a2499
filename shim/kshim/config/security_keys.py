"""Kafka's keys of listeners: where they are, what they speak, and how TLS and SASL are set up; most for each by itself.

Facts from AbstractKafkaConfig of Kafka 4.4; columns and rules as in `config_keys.py`. They are looked at only when one
of them is given. A key under `listener.name.<listener in lower case>.` goes before the same key without it.
"""

from __future__ import annotations

from typing import Final

from kshim.config.keys import Key, KeyType

# fmt: off
_ROWS: Final[tuple[tuple[str, KeyType, str | None, str, str], ...]] = (
    ("advertised.listeners",                                      "list",     None, "", "What clients of each listener connect to, NAME://HOST:PORT each; port 0 is the one bound."),
    ("authorizer.class.name",                                     "string",   "", "", "org.apache.kafka.metadata.authorizer.StandardAuthorizer: access rules decide who may do what."),
    ("connection.failed.authentication.delay.ms",                 "int",      "100", "0+", "How long the answer to a failed authentication is held back."),
    ("connections.max.reauth.ms",                                 "long",     "0", "", "How long a SASL session lasts until the client has to authenticate again; 0: for good."),
    ("controller.listener.names",                                 "list",     None, "", "Listeners of a KRaft controller, which are not opened here."),
    ("listener.security.protocol.map",                            "string",   "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "", "The security protocol of each listener by its name, NAME:PROTOCOL each."),
    ("listeners",                                                 "list",     "PLAINTEXT://:9092", "", "Where to listen, NAME://HOST:PORT each; --listen takes precedence."),
    # Kafka's default is GSSAPI, which is not spoken here.
    ("sasl.enabled.mechanisms",                                   "list",     "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "", "How clients of SASL listeners may authenticate: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512."),
    ("sasl.jaas.config",                                          "password", None, "", "Behind the name of a listener and a mechanism: who may log in with PLAIN, as options user_NAME of Kafka's PlainLoginModule."),
    ("sasl.server.max.receive.size",                              "int",      "524288", "", "Largest request of a client that has not authenticated."),
    ("ssl.client.auth",                                           "string",   "none", "required|requested|none", "Whether a client needs a certificate that the truststore vouches for; its subject is the principal."),
    ("ssl.enabled.protocols",                                     "list",     "TLSv1.2,TLSv1.3", "", "Versions of TLS that are spoken: TLSv1.2, TLSv1.3 or both."),
    ("ssl.key.password",                                          "password", None, "", "Password of the encrypted private key."),
    ("ssl.keystore.certificate.chain",                            "password", None, "", "The server's certificate and those it hangs on, as PEM text."),
    ("ssl.keystore.key",                                          "password", None, "", "The private key, as PEM text."),
    ("ssl.keystore.location",                                     "string",   None, "", "A PEM file with the private key and the certificate chain."),
    ("ssl.keystore.type",                                         "string",   "JKS", "", "PEM; other kinds cannot be read here."),
    ("ssl.principal.mapping.rules",                               "string",   "DEFAULT", "", "How the subject of a client's certificate becomes a principal."),
    ("ssl.truststore.certificates",                               "password", None, "", "Certificates that vouch for clients, as PEM text."),
    ("ssl.truststore.location",                                   "string",   None, "", "A PEM file with them."),
    ("ssl.truststore.type",                                       "string",   "JKS", "", "PEM; other kinds cannot be read here."),
)
# fmt: on

SECURITY_KEYS: Final[dict[str, Key]] = {row[0]: Key(*row) for row in _ROWS}
"""By name."""
