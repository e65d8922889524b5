"""Component models that hang when they are ordered to."""

import shutil
from collections.abc import Collection
from pathlib import Path

PATCH = '''

import time
from pathlib import Path

_ORDER = Path({order!r})
_execute = TritonPythonModel.execute


def _hang(self, requests):
    """Do what was ordered, once: the file is gone for the next call."""
    try:
        how = _ORDER.read_text()
        _ORDER.unlink()
    except FileNotFoundError:
        return _execute(self, requests)
    if how == "sleeps":
        while True:
            time.sleep(3600)
    if how == "burns":
        while True:
            pass
    time.sleep(float(how))
    return _execute(self, requests)


TritonPythonModel.execute = _hang
'''


class HangingModels:
    """A repository of components, of which some obey."""

    def __init__(
        self, components: Path, folder: Path, models: Collection[str] | None = None
    ) -> None:
        self.repository = folder / "models"
        self._orders = folder / "orders"
        self.repository.mkdir()
        self._orders.mkdir()
        for model in components.iterdir():
            copy = self.repository / model.name
            is_free = models is not None and model.name not in models
            if is_free or not model.is_dir():
                copy.symlink_to(model)
                continue
            shutil.copytree(model, copy)
            code = copy / "1" / "model.py"
            code.write_text(code.read_text() + PATCH.format(order=str(self._order(model.name))))

    def hang(self, model: str, how: str) -> None:
        """Let the next call of a model hang: `sleeps`, `burns`, or a number of seconds."""
        written = self._orders / "next"
        written.write_text(how)
        written.rename(self._order(model))

    def has_begun(self, model: str) -> bool:
        return not self._order(model).exists()

    def _order(self, model: str) -> Path:
        return self._orders / f"{model}.order"
