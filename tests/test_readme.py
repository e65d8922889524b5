import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_options_table_is_that_of_the_code():
    spec = importlib.util.spec_from_file_location("table", ROOT / "scripts" / "options_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "README.md").read_text()
    assert module.with_table(text) == text, "run scripts/options_table.py"
