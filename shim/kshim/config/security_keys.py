"""Kafka's keys of listeners: where they are, what they speak, and how TLS and SASL are set up; most for each by itself.

Facts from AbstractKafkaConfig of Kafka 4.4; columns and rules as in `keys.py`. They are loaded only when one
of them is given. A key under `listener.name.<listener in lower case>.` goes before the same key without it.
"""

from __future__ import annotations

from typing import Final

from kshim.config.keys import Key, KeyType

# fmt: off
_ROWS: Final[tuple[tuple[str, KeyType, str | None, str, str], ...]] = (
    ("advertised.listeners",                                      "list",     None, "", "The addresses that clients of each listener connect to, as NAME://HOST:PORT; port 0 is the port of the listener."),
    ("authorizer.class.name",                                     "string",   "", "", "org.apache.kafka.metadata.authorizer.StandardAuthorizer enables ACLs."),
    ("connection.failed.authentication.delay.ms",                 "int",      "100", "0+", "How long the response to a failed authentication is delayed."),
    ("connections.max.reauth.ms",                                 "long",     "0", "", "How long a SASL session lasts until the client has to authenticate again; 0: no limit."),
    ("controller.listener.names",                                 "list",     None, "", "The listeners of a KRaft controller, which are ignored."),
    ("listener.security.protocol.map",                            "string",   "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "", "The security protocol of each listener, as NAME:PROTOCOL."),
    ("listeners",                                                 "list",     "PLAINTEXT://:9092", "", "The addresses to listen on, as NAME://HOST:PORT; --listen takes precedence."),
    # Kafka's default is GSSAPI, which is not spoken here.
    ("sasl.enabled.mechanisms",                                   "list",     "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "", "The mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512."),
    ("sasl.jaas.config",                                          "password", None, "", "With the prefix of a listener and a mechanism: the users of PLAIN, as options user_NAME of Kafka's PlainLoginModule."),
    ("sasl.server.max.receive.size",                              "int",      "524288", "", "The maximum size of a request before authentication."),
    ("ssl.client.auth",                                           "string",   "none", "required|requested|none", "Whether clients need a certificate that the truststore trusts; its subject is the principal."),
    ("ssl.enabled.protocols",                                     "list",     "TLSv1.2,TLSv1.3", "", "The enabled versions of TLS: TLSv1.2, TLSv1.3 or both."),
    ("ssl.key.password",                                          "password", None, "", "The password of the encrypted private key."),
    ("ssl.keystore.certificate.chain",                            "password", None, "", "The server's certificate chain, as PEM text."),
    ("ssl.keystore.key",                                          "password", None, "", "The private key, as PEM text."),
    ("ssl.keystore.location",                                     "string",   None, "", "A PEM file with the private key and the certificate chain."),
    ("ssl.keystore.type",                                         "string",   "JKS", "", "PEM; other types are not supported."),
    ("ssl.principal.mapping.rules",                               "string",   "DEFAULT", "", "How the subject of a client certificate is mapped to a principal."),
    ("ssl.truststore.certificates",                               "password", None, "", "The trusted certificate authorities for clients, as PEM text."),
    ("ssl.truststore.location",                                   "string",   None, "", "A PEM file with the trusted certificate authorities."),
    ("ssl.truststore.type",                                       "string",   "JKS", "", "PEM; other types are not supported."),
)
# fmt: on

SECURITY_KEYS: Final[dict[str, Key]] = {row[0]: Key(*row) for row in _ROWS}
"""By name."""
