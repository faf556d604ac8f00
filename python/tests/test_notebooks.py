"""The notebooks run, and they make the pictures of the documentation."""

import json
import pathlib

import pytest
from conftest import REPOSITORY

FOLDER = REPOSITORY / "python" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells(name):
    document = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_and_draws_the_picture_of_the_docs(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    names = {"__name__": name}
    for number, code in enumerate(cells(name)):
        exec(compile(code, f"{name}, cell {number}", "exec"), names)
    picture = pathlib.Path(REPOSITORY / "docs" / "pictures" / f"{name}.svg")
    assert picture.read_text(encoding="utf-8") == names["picture"].svg(), f"picture.save('{picture}') writes it anew"


def test_three_notebooks_are_there():
    assert len(NOTEBOOKS) == 3
