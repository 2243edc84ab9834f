"""An explanation in a notebook: executed by Jupyter, and the outcome opened in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from browsing import watched

MAKE = """\
import torch
import graphfaith as gf
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCN

torch.manual_seed(0)
ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
explainer = Explainer(
    GCN(3, 8, num_layers=2, out_channels=2).eval(), algorithm=gf.KEC("U(A,0.5)", num_samples=20),
    explanation_type="model", node_mask_type="attributes", edge_mask_type="object",
    model_config=dict(mode="multiclass_classification", task_level="node", return_type="raw"),
)
explanation = explainer(torch.rand(6, 3), torch.cat([ring, ring.flip(0)], dim=1), index=2)
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    cells = [nbformat.v4.new_code_cell(text) for text in (MAKE, "explanation", "gf.page([explanation, explanation])")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "x.ipynb")
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", "--template", "basic", "x.ipynb"]
    settings = {"HOME": str(folder), "IPYTHONDIR": str(folder), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # The basic template is the notebook's body alone, without the scripts that others fetch.
    (folder / "x.html").write_text(f"<!DOCTYPE html><meta charset=utf-8>{(folder / 'x.html').read_text()}")
    return folder / "x.html"


def test_it_is_shown_in_a_frame_of_its_own(browser: Browser, rendered: Path) -> None:
    with watched(browser, offline=True) as one:
        one.page.goto(rendered.as_uri())
        frames = one.page.locator("iframe")
        expect(frames).to_have_count(2)
        for number, panels in ((0, 1), (1, 2)):
            assert frames.nth(number).get_attribute("sandbox") == "allow-scripts"
            inside = frames.nth(number).content_frame
            expect(inside.locator(".panel")).to_have_count(panels)
            expect(inside.locator("h1")).to_have_text("What the model looked at for node 2")
        assert [frame.evaluate("window.origin") for frame in one.page.frames[1:]] == ["null", "null"]
        assert one.complaints == []
        assert [url for url in one.requests if not url.startswith(("file:", "about:"))] == []


def test_it_can_be_used_there(browser: Browser, rendered: Path) -> None:
    with watched(browser, offline=True) as one:
        one.page.goto(rendered.as_uri())
        inside = one.page.locator("iframe").first.content_frame
        inside.get_by_label("Find a node").fill("3")
        inside.get_by_label("Find a node").press("Enter")
        expect(inside.locator("#status")).to_contain_text("KEC")
        inside.get_by_role("button", name="Copy the table of edges").click()
        expect(inside.locator("#status")).to_have_text("Edges: selected; copy with Ctrl+C.")
