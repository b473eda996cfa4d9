"""An inventory is loaded whole, or every problem of it is said with file, line and path."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from provision.errors import InventoryError
from provision.inventory.loader import find_inventory, load, parse
from provision.inventory.models import GpuSelector, Inventory
from provision.inventory.yaml_text import read_yaml

EXAMPLES = sorted((Path(__file__).parents[2] / "inventories").glob("*.yaml"))
HOST = "hosts:\n  pve1:\n    address: root@pve1\n"


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InventoryError) as caught:
        parse(text, "pvectl.yaml")
    return caught.value.problems


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_loads_and_fits_its_schema(path):
    assert isinstance(load(path), Inventory)
    keys_as_text = yaml.safe_load(yaml.safe_dump(_text_keys(read_yaml(path.read_text("utf-8")).data)))
    Draft202012Validator(Inventory.model_json_schema()).validate(keys_as_text)


def _text_keys(value):
    if isinstance(value, dict):
        return {str(k): _text_keys(v) for k, v in value.items()}
    return [_text_keys(v) for v in value] if isinstance(value, list) else value


def test_the_examples_are_the_ones_that_the_documentation_names():
    assert [p.name for p in EXAMPLES] == [
        "eight-gpus-new-vm.yaml",
        "field-report.yaml",
        "minimal.yaml",
        "two-hosts.yaml",
    ]


def test_values_of_an_inventory():
    inventory = load(EXAMPLES[3])
    assert inventory.hosts["pve1"].vms[101].gpus.numa == 0
    assert inventory.hosts["pve1"].vms[101].guest.user == "ubuntu"
    assert inventory.hosts["pve2"].mappings["spare"].gpus.bdf == ("0000:c1:00.0",)
    assert inventory.hosts["pve2"].vms[200].gpus.all_but == GpuSelector(bdf=("0000:c1:00.0",))
    assert inventory.policies_for("pve1").acs == "no-override"
    assert inventory.policies_for("pve2").binding == "none"


@pytest.mark.parametrize(
    ("gpus", "selector"),
    [
        ("all", GpuSelector()),
        ("[41:00.0, 0000:C1:00.0]", GpuSelector(bdf=("0000:41:00.0", "0000:c1:00.0"))),
        ("{bdf: 41:00.0}", GpuSelector(bdf=("0000:41:00.0",))),
        ("{slot: 3}", GpuSelector(slot=("3",))),
        ("{slot: [3, PCIE5]}", GpuSelector(slot=("3", "PCIE5"))),
        ("{model: 10de:2bb5, count: 2}", GpuSelector(model="10de:2bb5", count=2)),
        ("{all but: {numa: 1}}", GpuSelector(all_but=GpuSelector(numa=1))),
    ],
)
def test_forms_of_a_selector(gpus, selector):
    inventory = parse(f"{HOST}    vms:\n      100: {{gpus: {gpus}}}\n", "x")
    assert inventory.hosts["pve1"].vms[100].gpus == selector


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("hosts: {}\n", 1, "hosts: at least one is needed"),
        ("policies: {}\n", 1, "hosts: this key is missing"),
        ("hosts:\n  pve1: {}\n", 2, "hosts.pve1.address: this key is missing"),
        ("hosts:\n  pve1:\n", 2, "hosts.pve1: a mapping of keys is expected"),
        ("hosts:\n  pve1: {address: 12}\n", 2, "hosts.pve1.address: text is expected"),
        ("hosts:\n  pve1: {address: ''}\n", 2, "write [user@]host[:port] or local"),
        ("hosts:\n  pve1: {address: a:b@c}\n", 2, "a password must not stand"),
        (f"{HOST}    vms:\n      99: {{}}\n", 5, "hosts.pve1.vms.99: this is not a VM id"),
        (f"{HOST}    vms:\n      0100: {{}}\n", 5, "hosts.pve1.vms.0100: this is not a VM id"),
        (f"{HOST}    vms:\n      1.5: {{}}\n", 5, "this is not a VM id"),
        (f"{HOST}    vms:\n      100: {{gpus: none}}\n", 5, "write all, a list of PCI addresses"),
        (f"{HOST}    vms:\n      100:\n        gpus:\n        - 41:00\n", 7, "'41:00' is not a PCI address"),
        (f"{HOST}    vms:\n      100: {{mapping: poool}}\n", 5, "'poool' is not allowed; allowed: auto, per-gpu, pool"),
        (f"{HOST}    vms:\n      100: {{gpus: {{count: 0}}}}\n", 5, "0 is out of range; allowed: at least 1"),
        (f"{HOST}    vms:\n      100: {{mapping_prefix: 1a}}\n", 5, "begin with a letter"),
        (f"{HOST}    vms:\n      100: {{start: maybe}}\n", 5, "true or false is expected"),
        (f"{HOST}    vms: [100]\n", 4, "hosts.pve1.vms: a mapping of keys is expected"),
        (f"{HOST}    ssh: {{connect_timeout: 301}}\n", 4, "at most 300"),
        (f"{HOST}    api: {{auth: {'x' * 41}}}\n", 4, "this value is not allowed; allowed: token, ticket, none"),
        (f"{HOST}    vms: {{100: {{gpus: {{colour: red}}}}}}\n", 4, "no such key; allowed: model, bdf"),
        (f"{HOST}    vms: {{100: {{gpus: {{all but: {{colour: red}}}}}}}}\n", 4, "no such key; allowed: model, bdf"),
        (f"{HOST}    policies: {{boot: {{tidyy: never}}}}\n", 4, "did you mean tidy?"),
        (f"{HOST}    ssh: {{connect_timeout: 0}}\n", 4, "more than 0"),
        (f"{HOST}    polices: {{}}\n", 4, "no such key; did you mean policies?; allowed: address, ssh, api"),
        (f"{HOST}    api: {{url: http://x}}\n", 4, "write https://address:port"),
        (f"{HOST}    api: {{auth: token}}\n", 4, "hosts.pve1.api: auth: token needs user"),
        (f"{HOST}    api: {{auth: ticket}}\n", 4, "auth: ticket needs user and secret"),
        (f"{HOST}    api: {{secret: {{}}}}\n", 4, "give exactly one of env and file"),
        (f"{HOST}policies: {{boot: {{tidy: no}}}}\n", 4, "'no' is not allowed; allowed: with-changes, never, always"),
        (f"{HOST}    api: {{secret: {{file: ''}}}}\n", 4, "it is empty"),
        ("schema: pvectl.plan/1\n" + HOST, 1, "this is not a pvectl inventory; allowed: pvectl.inventory/1"),
        ("schema: 1\n" + HOST, 1, "this is not a pvectl inventory"),
        (HOST + "hosts:\n  b: {address: c}\n", 4, "this key stands here for the second time (first in line 1)"),
        ("a: [\n", 2, "stream end"),
    ],
)
def test_each_problem_is_named_with_line_and_path(text, line, words):
    found = [p for p in problems(text) if words in p]
    assert found, problems(text)
    assert found[0].startswith(f"pvectl.yaml:{line}: ")


def test_all_problems_come_at_once_in_the_order_of_the_file():
    text = f"{HOST}    url: x\n    vms:\n      100: {{convert: 7}}\n      100: {{}}\npolicies:\n  iommu: on\n  acs: 3\n"
    lines = [int(p.split(":")[1]) for p in problems(text)]
    assert lines == [4, 7, 9, 10]


def test_a_problem_in_an_anchor_names_use_and_anchor():
    (problem,) = problems("x-g: &g\n  numa: -1\n" + HOST + "    vms:\n      100: {gpus: {<<: *g}}\n")
    assert problem.startswith("pvectl.yaml:2: hosts.pve1.vms.100.gpus.numa: ")


def test_keys_that_begin_with_x_are_free():
    assert parse("x-anything: {a: [1]}\n" + HOST, "x").hosts["pve1"].address == "root@pve1"


@pytest.mark.parametrize(
    "api",
    [
        "{secret: hunter2}",
        "{secret: 123456789}",
        "{secret: [hunter2]}",
        "{secret: {env: hunter2-hunter2}}",
        "{secret: {token: hunter2}}",
        "{secret: {hunter2}}",
        "{secret: {hunter2, hunter2}}",
        "{password: {hunter2: 1, hunter2: 2}}",
        "{secret: {env: 123456789}}",
        "{password: hunter2}",
        "{token: hunter2}",
        "{auth: hunter2, secret: hunter2}",
        "{url: 'https://root:hunter2@pve1:8006'}",
    ],
)
def test_a_literal_secret_is_refused_and_never_shown(api):
    found = problems(f"{HOST}    api: {api}\n")
    text = "\n".join(found).replace("'hunter2' is not allowed", "") if "auth: hunter2" in api else "\n".join(found)
    assert found
    assert "hunter2" not in text
    assert "123456789" not in text


def test_advice_for_a_literal_secret():
    (problem,) = problems(f"{HOST}    api: {{secret: hunter2}}\n")
    assert "write {env: VARIABLE} or {file: PATH}" in problem
    (problem,) = problems(f"{HOST}    api: {{password: hunter2}}\n")
    assert "api.secret: {env: VARIABLE} or {file: PATH}" in problem


def test_a_newer_schema_asks_for_an_upgrade():
    with pytest.raises(InventoryError, match=r"newer than pvectl\.inventory/1") as caught:
        parse("schema: pvectl.inventory/2\n" + HOST, "x")
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "it is empty"),
        (b"# only a comment\n", "it is empty"),
        (b"- a\n- b\n", "it holds a list"),
        (b"hello\n", "it holds a single value"),
        (b"\x7fELF\0\0", "it is not a text file"),
        ("hosts:\n  x".encode("utf-16"), "it is not a text file"),
        (b"a: b\nc: \xff\xfe\n", "line 2 is not UTF-8"),
    ],
)
def test_files_that_are_no_inventory(tmp_path, raw, words):
    path = tmp_path / "pvectl.yaml"
    path.write_bytes(raw)
    with pytest.raises(InventoryError) as caught:
        load(path)
    assert words in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 64


def test_a_missing_file_a_folder_and_a_byte_order_mark(tmp_path):
    with pytest.raises(InventoryError, match="no such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(InventoryError, match="it is a folder"):
        load(tmp_path)
    with pytest.raises(InventoryError, match="Unable to read"):
        load(tmp_path / ("x" * 300))
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + HOST.replace("\n", "\r\n").encode())
    assert load(path).hosts["pve1"].address == "root@pve1"


def test_relative_paths_are_taken_from_the_inventory_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    path = tmp_path / "pvectl.yaml"
    path.write_text(
        HOST + "    ssh: {identity_file: keys/id, known_hosts: ~/kh, config: /etc/ssh_config}\n"
        "    api: {auth: token, user: a@pve, token_name: t, secret: {file: token}, ca_file: ca.pem}\n"
    )
    host = load(path).hosts["pve1"]
    assert host.ssh.identity_file == str(tmp_path / "keys/id")
    assert host.ssh.known_hosts == "/home/me/kh"
    assert host.ssh.config == "/etc/ssh_config"
    assert host.api.secret.file == str(tmp_path / "token")
    assert host.api.ca_file == str(tmp_path / "ca.pem")


def test_where_an_inventory_is_looked_for(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    system = tmp_path / "inventory.yaml"
    monkeypatch.setattr("provision.inventory.loader.NAMES", ("pvectl.yaml", str(system)))
    assert find_inventory(None, {}, here) is None
    system.touch()
    assert find_inventory(None, {}, here) == system
    (here / "pvectl.yaml").touch()
    assert find_inventory(None, {}, here) == here / "pvectl.yaml"
    assert find_inventory(None, {"PVECTL_INVENTORY": ""}, here) == here / "pvectl.yaml"
    assert find_inventory(None, {"PVECTL_INVENTORY": "/missing"}, here) == Path("/missing")
    assert find_inventory(Path("other"), {"PVECTL_INVENTORY": "/missing"}, here) == Path("other")
