"""AlterUserScramCredentials and DescribeUserScramCredentials; what Kafka answers is in integration/security."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim.security.authentication.credentials import SCRAM_DOCUMENT
from kshim.security.authentication.scram import salted_password
from kshim.storage.log import LogError
from kshim.storage.stores import MemoryStorage
from kshim_protocol.errors import ErrorCode
from kshim_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kshim_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kshim_protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.broker.harness import Client, NodeUnderTest, a_node, files_in

SALTED = salted_password("SCRAM-SHA-256", "hush", b"salt", 4096)


def upsert(*users: str) -> AlterUserScramCredentialsRequest:
    rows = tuple(
        ScramCredentialUpsertion(name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=SALTED)
        for user in users
    )
    return AlterUserScramCredentialsRequest(deletions=(), upsertions=rows)


def errors(client: Client, request: AlterUserScramCredentialsRequest) -> dict[str, int]:
    return {row.user: row.error_code for row in client.ask(request).results}


def users(node: NodeUnderTest) -> list[str]:
    request = DescribeUserScramCredentialsRequest(users=None)
    return [row.user for row in node.client().ask(request).results]


def test_credentials_are_kept_with_the_data_without_what_was_sent(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path))
    assert errors(node.client(), upsert("alice", "bob")) == {"alice": 0, "bob": 0}
    deletion = ScramCredentialDeletion(name="bob", mechanism=1)
    assert errors(node.client(), AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=())) == {"bob": 0}
    node.close()
    node = a_node(storage=files_in(tmp_path))
    assert users(node) == ["alice"]
    assert node.cluster.scram_credentials.find("SCRAM-SHA-256", "alice") is not None
    node.close()
    document = tmp_path / SCRAM_DOCUMENT
    assert document.stat().st_mode & 0o777 == 0o600
    assert SALTED.hex() not in document.read_bytes().hex()


def test_a_damaged_document_is_an_error_and_not_no_credentials(tmp_path: Path) -> None:
    node = a_node(storage=files_in(tmp_path))
    node.close()
    (tmp_path / SCRAM_DOCUMENT).write_text("{")
    node = a_node(storage=files_in(tmp_path), tolerates_defects=True)
    answer = node.client().ask(DescribeUserScramCredentialsRequest(users=None))
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert errors(node.client(), upsert("alice")) == {"alice": ErrorCode.KAFKA_STORAGE_ERROR}
    node.close()


def test_a_user_with_a_mistake_keeps_the_others_from_nothing() -> None:
    node = a_node()
    request = upsert("alice", "")
    assert errors(node.client(), request) == {"alice": 0, "": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert users(node) == ["alice"]


def test_credentials_that_cannot_be_stored_are_refused() -> None:
    class Full(MemoryStorage):
        def write_document(self, name: str, text: str) -> None:
            raise LogError("no space left")

    node = a_node(storage=Full(), tolerates_defects=True)
    assert errors(node.client(), upsert("alice")) == {"alice": ErrorCode.KAFKA_STORAGE_ERROR}
    assert users(node) == []


@pytest.mark.parametrize(
    "key", ["sasl.jaas.config", "plain.sasl.jaas.config", "listener.name.a.plain.sasl.jaas.config"]
)
def test_secrets_of_the_configuration_are_told_to_nobody(key: str) -> None:
    node = a_node({key: 'x required user_a="hush";'})
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    answer = node.client().ask(DescribeConfigsRequest(resources=(resource,), include_synonyms=True))
    assert "hush" not in repr(answer)
    assert "hush" not in repr(node.cluster.config.warnings)
