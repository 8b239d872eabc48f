"""Generated files are what the models say today, and an example configuration is exactly the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsdb.config import Component, load_config
from tsdb.config._example import render_example
from tsdb.config._schema import keys_of
from tsdb.config.generate import generated_files

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "text"), generated_files().items(), ids=list(generated_files()))
def test_generated_file_is_current(name: str, text: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run `make generate`"


@pytest.mark.parametrize("component", list(Component))
def test_example_configuration_is_the_defaults(component: Component, tmp_path: Path) -> None:
    file = tmp_path / "example.toml"
    file.write_text(render_example(component))
    environment = {"TSDB_DATANODE__NODE_ID": "1"}
    example = load_config(component, file=file, environment=environment)
    assert example.config == load_config(component, environment=environment).config


@pytest.mark.parametrize("component", [Component.STANDALONE, Component.DATANODE])
def test_example_configuration_stays_valid_when_a_storage_is_uncommented(component: Component, tmp_path: Path) -> None:
    text = render_example(component)
    before, s3, after = text.partition("# With type S3:\n")
    block, _, rest = after.partition("\n# With type Oss:")
    lines = [line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in block.splitlines()]
    before = before.replace('type = "File"\n', "", 1)
    file = tmp_path / "example.toml"
    file.write_text("\n".join([before, s3, *lines, "# With type Oss:" + rest]).replace('dir = ""', 'dir = "/w"', 1))
    loaded = load_config(component, file=file, environment={"TSDB_DATANODE__NODE_ID": "1"})
    assert loaded.config.storage.type == "S3"  # type: ignore[union-attr]


def test_storage_types_are_listed_once_per_key() -> None:
    for component in Component:
        for key in keys_of(component).values():
            assert len(set(key.variants)) == len(key.variants), f"{key.dotted} repeats {key.variants}"
    providers = keys_of(Component.STANDALONE)
    assert providers["storage", "providers", "*", "bucket"].variants == ("S3", "Oss", "Gcs")
    assert providers["storage", "providers", "*", "type"].variants == ()


@pytest.mark.parametrize("component", [Component.STANDALONE, Component.DATANODE])
def test_an_example_of_a_provider_does_not_repeat_the_explanations(component: Component) -> None:
    section = render_example(component).partition("#[[storage.providers]]\n")[2].partition("\n\n")[0]
    assert section
    assert not [line for line in section.splitlines() if line.startswith("# ")]


def test_every_key_is_documented_with_a_meaning() -> None:
    for component in Component:
        for key in keys_of(component).values():
            assert key.meaning.endswith("."), f"{key.dotted} has no meaning"
