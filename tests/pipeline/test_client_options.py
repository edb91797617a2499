"""Settings of a client: read as Java reads them, and wrong ones named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kshim_pipeline.errors import EXIT_USAGE, PipelineError
from kshim_pipeline.inputs.client_options import client_options, login_of

PLAIN = """\
# a comment
! another
security.protocol : SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="alice" \\
    password="a=b:c";
request.timeout.ms 5000
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "client.properties"
    file.write_text(text)
    return file


def test_properties_are_read_as_java_writes_them(tmp_path: Path) -> None:
    options = client_options(written(tmp_path, PLAIN))
    assert options == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="a=b:c";',
        "request.timeout.ms": "5000",
    }
    assert login_of(options) == ("PLAIN", "alice", "a=b:c")
    assert client_options(None) == {}


def test_what_the_pipeline_does_not_know_is_left_to_java(tmp_path: Path) -> None:
    text = "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\nsasl.new.setting=1\n"
    options = client_options(written(tmp_path, text))
    assert options["sasl.new.setting"] == "1"
    assert login_of(options) is None


@pytest.mark.parametrize(
    "text",
    [
        "security.protocol=SASL_SSL\nsasl.mechanism=AWS_MSK_IAM\n"
        "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
        "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n",
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=com.example.VaultLoginModule required;\n",
        "config.providers=env\nsecurity.protocol=${env:PROTOCOL}\n",
        PLAIN.replace("PLAIN\n", "SCRAM-SHA-256\n", 1)
        .replace("plain.PlainLoginModule", "scram.ScramLoginModule")
        .replace("required", "required tokenauth=true"),
    ],
    ids=["another mechanism", "another login module", "values from elsewhere", "a delegation token"],
)
def test_classes_of_the_user_and_delegation_tokens_are_left_to_java(tmp_path: Path, text: str) -> None:
    assert login_of(client_options(written(tmp_path, text))) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "security.protocol :",
            "security.protocoll :",
            "there is no setting security.protocoll; security.protocol is meant",
        ),
        ("SASL_PLAINTEXT", "SASL_PLAIN", "security.protocol is SASL_PLAIN, not one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "sasl.mechanism is given, but security.protocol is PLAINTEXT"),
        ("=PLAIN\n", "=PLAN\n", "sasl.mechanism is PLAN, not one of GSSAPI, OAUTHBEARER, PLAIN, SCRAM-SHA-256"),
        (
            "=PLAIN\n",
            "=SCRAM-SHA-256\n",
            r"sasl.jaas.config has .*PlainLoginModule, but sasl.mechanism is SCRAM-SHA-256",
        ),
        ("sasl.jaas.config", "sasl.jaas.configuration.x", "sasl.jaas.config is missing: sasl.mechanism=PLAIN"),
        ("required", "needed", "sasl.jaas.config: the control flag behind the login module is one of required"),
        ('"a=b:c";', '"a=b:c"', "sasl.jaas.config: .*semicolon"),
        ("password=", "pass=", "sasl.jaas.config has no password"),
    ],
)
def test_a_wrong_setting_is_said_by_its_name_and_without_a_secret(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    assert before in PLAIN
    with pytest.raises(PipelineError, match=said) as error:
        client_options(written(tmp_path, PLAIN.replace(before, after, 1)))
    assert error.value.exit_code == EXIT_USAGE
    assert "a=b:c" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="Cannot read"):
        client_options(tmp_path / "none")
    with pytest.raises(PipelineError, match="malformed"):
        client_options(written(tmp_path, "a=\\u00g1\n"))
