"""TLS, SASL and access rules, by the settings that each client has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import kafka
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    UserScramCredentialUpsertion,
)

from integration.clients.application import Application, Sent
from integration.clients.driver import DriverError
from integration.clients.members import Group, partitions_of
from integration.clients.scene import Scene
from integration.clients.secured import ALICE, BOB, Secured
from integration.clients.situation import Setting, situation
from integration.clients.situations.admin import refused

_REFUSED_WITHIN_S = 8.0


def secured(scene: Scene) -> Secured:
    """The broker of these situations."""
    return cast("Secured", scene.broker)


def works(scene: Scene, listener: str, security: Mapping[str, str]) -> None:
    """Topic, records and a group through this listener; whose address is the one that the cluster names there."""
    broker = secured(scene)
    application = scene.application(security, bootstrap=broker.address(listener))
    topic = scene.topic(application, 2)
    assert list(application.nodes().values()) == [broker.address(listener)]
    values = [f"{number} {'x' * 1_000}" for number in range(200)]
    application.produce(topic, [Sent(value, partition=number % 2) for number, value in enumerate(values)])
    group = Group(scene.name("group"))
    group.start(application, topic)
    group.settle(partitions_of(topic, 2))
    group.wait_for_values(values)
    group.require_no_errors()


def is_turned_away(scene: Scene, listener: str, security: Mapping[str, str]) -> None:
    """The client may give up or go on trying; nothing may come of it."""
    application = scene.application(security, bootstrap=secured(scene).address(listener))
    application.driver.send("list_topics")
    try:
        answer = application.driver.answer("list_topics", timeout_s=_REFUSED_WITHIN_S)
    except DriverError:
        return
    except AssertionError:
        scene.kill(application)
        return
    raise AssertionError(f"let in: {answer}")


@situation("TLS: the broker's certificate is checked", setting=Setting.SECURED)
def tls(scene: Scene) -> None:
    keys = secured(scene).keys
    works(scene, "TLS", {"protocol": "SSL", "ca": keys.ca})
    is_turned_away(scene, "TLS", {"protocol": "SSL", "ca": keys.stranger})


@situation("TLS: the client presents a certificate", setting=Setting.SECURED)
def tls_client_certificate(scene: Scene) -> None:
    keys = secured(scene).keys
    without = {"protocol": "SSL", "ca": keys.ca}
    works(scene, "MUTUAL", {**without, "certificate": keys.client_certificate, "key": keys.client_key})
    is_turned_away(scene, "MUTUAL", without)


@situation("SASL PLAIN", setting=Setting.SECURED)
def sasl_plain(scene: Scene) -> None:
    user, password = ALICE
    security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": user, "password": password}
    works(scene, "PASSWORD", security)
    is_turned_away(scene, "PASSWORD", {**security, "password": "wrong"})


@situation("SASL SCRAM-SHA-256 over TLS", setting=Setting.SECURED)
def sasl_scram_sha_256(scene: Scene) -> None:
    _scram(scene, "SCRAM-SHA-256")


@situation("SASL SCRAM-SHA-512 over TLS", setting=Setting.SECURED)
def sasl_scram_sha_512(scene: Scene) -> None:
    _scram(scene, "SCRAM-SHA-512")


def _scram(scene: Scene, mechanism: str) -> None:
    user, password = scene.name("user"), "a password, by SCRAM"
    admin = kafka.KafkaAdminClient(bootstrap_servers=scene.broker.bootstrap)
    scene.finally_(admin.close)
    answer = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, mechanism, password)])
    assert not any(answer.values()), answer
    security = {
        "protocol": "SASL_SSL",
        "ca": secured(scene).keys.ca,
        "mechanism": mechanism,
        "username": user,
        "password": password,
    }
    works(scene, "BOTH", security)
    is_turned_away(scene, "BOTH", {**security, "password": "wrong"})


@situation("ACLs: exactly what is not allowed is refused", setting=Setting.SECURED)
def access_rules(scene: Scene) -> None:
    owner, other = _as(scene, ALICE), _as(scene, BOB)
    topic, free = scene.topic(owner, word="reserved"), scene.topic(owner, word="free")
    admin = kafka.KafkaAdminClient(bootstrap_servers=scene.broker.bootstrap)
    scene.finally_(admin.close)
    admin.create_acls([_allow(ALICE[0], ACLOperation.ALL, topic), _allow(BOB[0], ACLOperation.DESCRIBE, topic)])
    assert owner.produce(topic, [Sent("by its owner")]) == [(0, 0)]
    refused(lambda: other.produce(topic, [Sent("by another")]), "TOPIC_AUTHORIZATION_FAILED")
    assert other.produce(free, [Sent("free for all")]) == [(0, 0)]
    refused(lambda: other.read(topic, {0: 0}, 1, timeout_s=5), "TOPIC_AUTHORIZATION_FAILED")
    refused(lambda: other.create_partitions(topic, 2), "TOPIC_AUTHORIZATION_FAILED")
    assert [record.value for record in owner.read(topic, {0: 0}, 1)] == ["by its owner"]


def _as(scene: Scene, who: tuple[str, str]) -> Application:
    user, password = who
    security = {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "username": user, "password": password}
    return scene.application(security, bootstrap=secured(scene).address("PASSWORD"))


def _allow(user: str, operation: ACLOperation, topic: str) -> ACL:
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    return ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)
