"""The files of the package that are generated, the presets, types, and the commands of the README."""

import dataclasses
import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from datetime import timedelta

import generate
import pytest
import tomllib
from conftest import PYTHON, ROOT
from google.protobuf import descriptor_pb2

from gannet import Configurations, ExponentialBackoff, FixedCount, __version__, _presets

TABLE = tomllib.loads((ROOT / "clients" / "presets.toml").read_text())


def presets(node=TABLE, name=""):
    for part, child in node.items():
        if isinstance(child, dict):
            whole = f"{name}.{part}" if name else part
            yield from [(whole, child)] if "deadline_ms" in child else presets(child, whole)


def test_generated_files_without_tools_are_current():
    for path, text in {**generate.presets(), **generate.client_async()}.items():
        assert path.read_text() == text, f"{path.name} is not current; run scripts/generate.py"


def test_messages_of_all_schemas_are_generated():
    files = {path.name for path in (PYTHON / "src" / "gannet" / "_proto").glob("*_pb2*")}
    assert {"cache", "topics", "records", "tokens", "leaderboards", "invalidations"} <= set(generate.schemas())
    assert files == {f"{name}_pb2{end}" for name in generate.schemas() for end in (".py", ".pyi", "_grpc.py")}


@pytest.mark.parametrize("name", generate.schemas())
def test_generated_messages_are_those_of_the_schema(tmp_path, name):
    from grpc_tools import protoc

    made = tmp_path / f"{name}.binpb"
    arguments = ["protoc", f"-I{ROOT / 'proto'}", f"--descriptor_set_out={made}", f"gannet/v1/{name}.proto"]
    assert protoc.main(arguments) == 0
    (schema,) = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    messages = importlib.import_module(f"gannet._proto.{name}_pb2")
    checked_in = descriptor_pb2.FileDescriptorProto.FromString(messages.DESCRIPTOR.serialized_pb)

    def without_json_names(message):
        for field in message.field:
            field.ClearField("json_name")
        for nested in message.nested_type:
            without_json_names(nested)

    for file in (schema, checked_in):
        for message in file.message_type:
            without_json_names(message)
    assert schema == checked_in, "the generated messages are not current; run scripts/generate.py"


@pytest.mark.parametrize(("name", "values"), list(presets()))
def test_preset_is_that_of_the_table(name, values):
    configuration = Configurations.named(name)
    milliseconds = timedelta(milliseconds=1)
    assert {
        "deadline_ms": configuration.deadline // milliseconds,
        "requests_in_flight_max": configuration.requests_in_flight_max,
        "requests_queued_max": configuration.requests_queued_max,
        "streams_per_connection": configuration.streams_per_connection,
        "connections_max": configuration.connections_max,
        "eager_connect": configuration.eager_connect,
        "keepalive_time_ms": (configuration.keepalive_time or timedelta(0)) // milliseconds,
        "keepalive_timeout_ms": configuration.keepalive_timeout // milliseconds,
        "keepalive_without_calls": configuration.keepalive_without_calls,
        "connect_timeout_ms": configuration.connect_timeout // milliseconds,
        "reconnect_delay_min_ms": configuration.reconnect_delay_min // milliseconds,
        "reconnect_delay_max_ms": configuration.reconnect_delay_max // milliseconds,
        "retry_strategy": {FixedCount: "fixed_count"}[type(configuration.retry_strategy)],
        "retry_count": configuration.retry_strategy.count,
        "retry_budget_percent": configuration.retry_budget.percent,
        "retry_budget_burst": configuration.retry_budget.burst,
        "message_bytes_max": configuration.message_bytes_max,
    } == values
    assert values["connections_max"] == -(-values["requests_in_flight_max"] // values["streams_per_connection"])


def test_version_1_of_each_preset_is_frozen():
    summary = {name: (each["deadline_ms"], each["requests_in_flight_max"]) for name, each in presets()}
    assert summary == {
        "Laptop.v1": (15_000, 200),
        "InRegion.Default.v1": (1_100, 400),
        "InRegion.LowLatency.v1": (500, 20),
        "Lambda.v1": (1_100, 400),
    }
    assert Configurations.Laptop.latest() == Configurations.Laptop.v1() == Configurations.named("Laptop")
    assert Configurations.InRegion.Default.latest() == Configurations.InRegion.Default.v1()
    assert Configurations.InRegion.LowLatency.latest() == Configurations.InRegion.LowLatency.v1()
    assert Configurations.Lambda.latest() == Configurations.Lambda.v1()
    assert set(_presets.LATEST) == {"Laptop", "InRegion.Default", "InRegion.LowLatency", "Lambda"}
    with pytest.raises(ValueError, match="use one of Laptop, InRegion.Default"):
        Configurations.named("Desktop")


def test_a_configuration_is_changed_by_copies():
    preset = Configurations.InRegion.LowLatency.v1()
    mine = preset.with_deadline(timedelta(seconds=2)).with_requests_in_flight_max(150)
    mine = mine.with_retry_strategy(ExponentialBackoff()).with_hedging(timedelta(milliseconds=5)).with_keepalive(None)
    assert (mine.deadline, mine.connections_max, mine.keepalive_time) == (timedelta(seconds=2), 2, None)
    assert preset == Configurations.InRegion.LowLatency.v1()
    assert dataclasses.replace(preset, eager_connect=False) == preset.with_eager_connect(False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset.deadline = timedelta(0)
    with pytest.raises(ValueError, match="give at least 1"):
        preset.with_requests_in_flight_max(0)
    with pytest.raises(ValueError, match="give a positive one"):
        preset.with_deadline(timedelta(0))
    for requests in (100_001, 10**12):
        with pytest.raises(ValueError, match="a client has at most 1000"):
            preset.with_requests_in_flight_max(requests)
    for delay in (timedelta(seconds=-1), timedelta.max):
        with pytest.raises(ValueError, match="give a time from zero to 24 days"):
            preset.with_hedging(delay)


def environment():
    return {**os.environ, "PYTHONPATH": str(PYTHON / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def test_types_are_complete(tmp_path):
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)]
    ran = subprocess.run(command, cwd=PYTHON, env=environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


CONSUMER = """
from datetime import timedelta
from typing import Union

from gannet import CacheClient, CacheClientAsync, ItemPermission, Role, TopicPermission

client = CacheClient("127.0.0.1:7000")
texts: dict[str, str] = {"a": "b"}
binary: dict[bytes, bytes] = {b"a": b"b"}
mixed: dict[Union[str, bytes], Union[str, bytes]] = {"a": b"b"}
floats: dict[str, float] = {"a": 1.5}
integers: dict[bytes, int] = {b"a": 1}
keys: list[str] = ["a"]
lists: dict[str, list[int]] = {"a": [1]}
ranked: dict[int, float] = {1: 1.5}
client.set_batch(texts), client.set_batch(binary), client.set_batch(mixed), client.set_batch(list(texts.items()))
client.dictionary_set_fields("d", texts), client.dictionary_set_fields("d", binary)
client.sorted_set_put_elements("z", floats), client.sorted_set_put_elements("z", integers)
client.sorted_set_put_elements("z", list(floats.items()))
client.get_batch(keys), client.record_put("r", {"a": 1}), client.record_put("r", lists)
client.leaderboard_upsert("l", ranked)
permissions = [ItemPermission(Role.READ_ONLY), TopicPermission(Role.READ_ONLY)]
client.generate_disposable_token(permissions, timedelta(seconds=5))


async def main() -> None:
    async with CacheClientAsync("127.0.0.1:7000") as tasks:
        await tasks.set_batch(texts)
        await tasks.dictionary_set_fields("d", binary)
        await tasks.sorted_set_put_elements("z", floats)
"""


def test_programs_of_users_pass_the_type_checker(tmp_path):
    text = (PYTHON / "README.md").read_text()
    programs = [CONSUMER, *re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    for at, program in enumerate(programs):
        (tmp_path / f"program_{at}.py").write_text(program)
    files = [str(tmp_path / f"program_{at}.py") for at in range(len(programs))]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "--config-file="]
    variables = {**environment(), "MYPYPATH": str(PYTHON / "src")}
    silent = ["--follow-imports=silent", "--no-error-summary"]
    ran = subprocess.run([*command, *silent, *files], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert {"grpcio", "protobuf"} <= {re.split(r"[<>=]", each)[0] for each in project["dependencies"]}
    assert importlib.metadata.version("grpcio")


def test_the_programs_of_the_readme_run(server):
    text = (PYTHON / "README.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) >= 10
    # Each program has names of its own; one process saves the time of the imports.
    whole = "\n".join(f"print('program {at}'); exec({program!r}, {{}})" for at, program in enumerate(programs))
    whole = whole.replace("127.0.0.1:7000", server.grpc_address)
    command = [sys.executable, "-W", "error", "-c", whole]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("program") >= len(programs) and "CacheError" not in ran.stdout
    assert ran.stdout.count("hello") >= 3


@pytest.mark.parametrize("path", sorted((PYTHON / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_example(path, server):
    command = [sys.executable, str(path), server.grpc_address]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0 and ran.stdout, ran.stderr


@pytest.mark.parametrize("mode", ["sync", "asyncio"])
@pytest.mark.parametrize("client", ["sdk", "stub"])
def test_load_program_reports_its_requests(server, mode, client):
    command = [sys.executable, "-m", "gannet.bench", "--address", server.grpc_address, "--seconds", "0.4"]
    command += ["--mode", mode, "--client", client, "--get-ratio", "0.5", "--concurrency", "4"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30)
    report = json.loads(ran.stdout)
    assert ran.returncode == 0 and not report["errors"] and report["requests"] > 10
    assert 0 < report["p50_us"] <= report["p99_us"] <= report["p999_us"] and report["cpu_s"] > 0


def test_load_program_compares_the_library_with_the_stub(server):
    command = [sys.executable, "-m", "gannet.bench", "--address", server.grpc_address, "--seconds", "0.2"]
    ran = subprocess.run([*command, "--compare", "2"], env=environment(), capture_output=True, text=True, timeout=30)
    report = json.loads(ran.stdout)
    stub, sdk = report["stub"]["cpu_us_per_request"], report["sdk"]["cpu_us_per_request"]
    assert ran.returncode == 0 and report["cpu_ratio"] == pytest.approx(sdk / stub, abs=0.001)


def test_load_program_names_the_remedy_if_there_is_no_server(server):
    command = [sys.executable, "-m", "gannet.bench", "--address", f"127.0.0.1:{server.resp_port}"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30)
    assert ran.returncode == 1 and "does not speak gRPC" in ran.stderr
