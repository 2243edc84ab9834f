"""Make the pictures of the README, docs/view.md and docs/concepts.md: `make pictures`, or some of them by name.

The figures are of `gf.figure`: a hub and a paper of Cora by a GAT, a house of BA-Shapes, a link, and a molecule. The
demo is what `graphfaith demo` draws; the page and the live view are opened in Chromium and photographed. What the
concepts' pictures show is measured while they are drawn: `docs/concept_pictures.py`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from concept_pictures import draw_concepts
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GAT, GraphSAGE, global_add_pool

import graphfaith as gf
from graphfaith.data import crippen, planetoid
from graphfaith.data.models import load_trained
from graphfaith.data.models import train as train_model
from graphfaith.facade import Subject
from graphfaith.view.live.desk import Desk, Question
from graphfaith.view.live.server import Server
from graphfaith_studies.showcase.links import train_link_predictor

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LIVE_NODE = 665  # of Cora: a hundred nodes in reach, which fit in a picture
HUB = 1701  # of Cora: 74 papers cite it or are cited by it
HOUSE = 402  # of BA-Shapes: at the bottom of a house
GAT_NODE = 1195
MOLECULE = 7  # of the molecules of Crippen's data that the model is not trained on
DOCS = Path(__file__).parent
DPI = 150
# Which atoms and bonds the columns of the data stand for, as the numbers of bonds of their atoms say.
ELEMENTS = ("C", "N", "O", "S", "F", "P", "Cl", "Br", "Na", "Ca", "I", "B", "H", "*")
ORDERS = (1.0, 2.0, 3.0, 1.5, 1.0)


def draw_hub() -> None:
    """A hub of Cora: most of what is around it says nothing, and is folded away."""
    fit = load_trained("cora")
    explanation = gf.explain(fit.model, fit.data, HUB, neighborhood="R(A,5)")
    gf.figure(explanation, DOCS / "hub.png", panel_width=4.4, dpi=DPI)


def draw_house() -> None:
    """A node at the bottom of a house of BA-Shapes; the house is what it is recognised by."""
    fit = load_trained("ba-shapes")
    explanation = gf.explain(fit.model, fit.data, HOUSE, neighborhood="R(A,5)")
    explanation.name(classes=["not in a house", "middle of a house", "bottom of a house", "roof of a house"])
    gf.figure(explanation, DOCS / "house.png", panel_width=4.4, dpi=DPI)


def draw_link() -> None:
    """A link that a predictor foretells between two papers of Cora that it was not shown as linked."""
    fit = train_link_predictor(seed=0)
    pairs, labels = fit.links.test.edge_label_index, fit.links.test.edge_label
    with torch.no_grad():
        logits = fit.model(fit.links.test.x, fit.links.test.edge_index, edge_label_index=pairs)
    degree = torch.bincount(fit.links.test.edge_index[0], minlength=fit.links.test.num_nodes)
    few = (degree[pairs] >= 3).all(0) & (degree[pairs] <= 8).all(0) & (labels == 1)
    chosen = int(torch.where(few, logits, -torch.inf).argmax())
    explanation = gf.explain(
        fit.model, fit.links.test, edge=chosen, mode="binary_classification", return_type="raw", neighborhood="R(A,5)"
    ).name(classes=["no link", "a link"])
    gf.figure(explanation, DOCS / "link.png", panel_width=4.4, dpi=DPI)


def draw_gat() -> None:
    """A paper of Cora, judged by a network with attention."""
    data = planetoid("cora", normalize=False)
    torch.manual_seed(0)
    model = GAT(data.num_features, 8, 2, out_channels=7, heads=4, dropout=0.5)
    train_model(model, data, epochs=120, lr=0.01, weight_decay=5e-4, seed=0)
    explanation = gf.explain(model.eval(), data, GAT_NODE, neighborhood="R(A,5)")
    gf.figure(explanation, DOCS / "gat.png", panel_width=4.4, dpi=DPI)


class Solubility(torch.nn.Module):
    """How much a molecule prefers fat to water (Crippen's logP): the sum of a number for each atom and its bonds."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = GraphSAGE(len(ELEMENTS), 32, 2, out_channels=1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        return global_add_pool(self.layers(x, edge_index), batch).view(-1)


def name_atoms(molecule: Data) -> Data:
    """Return the molecule with the elements of its atoms and the orders of its bonds, which a picture shows."""
    kinds = [ELEMENTS[column] for column in molecule.x.argmax(1)]
    orders = [ORDERS[column] for column in molecule.edge_attr.argmax(1)]
    return Data(x=molecule.x, edge_index=molecule.edge_index, node_kinds=kinds, edge_orders=orders)


def draw_molecule() -> None:
    """A molecule whose atoms raise or lower its preference for fat over water."""
    molecules = crippen()
    torch.manual_seed(0)
    model = Solubility()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(30):
        for batch in DataLoader(molecules.train, 64, shuffle=True):
            optimizer.zero_grad()
            (model(batch.x, batch.edge_index, batch.batch) - batch.y).square().mean().backward()
            optimizer.step()
    model.eval()
    unseen = next(iter(DataLoader(molecules.test, len(molecules.test))))
    with torch.no_grad():
        rest = (model(unseen.x, unseen.edge_index, unseen.batch) - unseen.y).square().sum()
    print(f"the model of molecules: R^2 {1 - float(rest / (unseen.y - unseen.y.mean()).square().sum()):.3f} on others")
    explanation = gf.explain(
        model, name_atoms(molecules.test[MOLECULE]), graph=0, mode="regression", neighborhood="B(X,0.5)"
    )
    explanation.name(classes=["Preference for fat over water (log P)"])
    gf.figure(explanation, DOCS / "molecule.png", panel_width=4.4, dpi=DPI)


@contextmanager
def opened(browser: Browser, address: str, scheme: str, size: tuple[int, int]) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=1.5
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".panel")
    page.wait_for_timeout(300)
    yield page
    context.close()


def photograph() -> None:
    """The demo's figure, its page, and the live view."""
    sys.path.insert(0, str(DOCS.parent / "tests"))
    from browsing import started  # The tests know where the browser is.

    with tempfile.TemporaryDirectory() as folder, started() as browser:
        subprocess.run([sys.executable, "-m", "graphfaith", "demo", "--out", folder], check=True)
        shutil.copy(Path(folder) / "explanations.png", DOCS / "demo.png")
        with opened(browser, (Path(folder) / "explanations.html").as_uri(), "light", (1280, 980)) as page:
            page.screenshot(path=DOCS / "page.png")
        fit = load_trained("cora")
        desk = Desk(Subject(fit.model, fit.data), "cora")
        first = Question(LIVE_NODE, ("anchored-kec", "kec", "saliency"), "B(A,0.5)")
        desk.start(first)  # The first answer of a process waits for what is compiled or read once.
        with Server(desk, desk.start(first)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with opened(browser, server.url, "dark", (1280, 980)) as page:
                page.screenshot(path=DOCS / "live.png")
            server.shutdown()


PICTURES: dict[str, Callable[[], None]] = {
    "hub": draw_hub,
    "house": draw_house,
    "link": draw_link,
    "gat": draw_gat,
    "molecule": draw_molecule,
    "concepts": draw_concepts,
    "pages": photograph,
}


def main(names: list[str]) -> None:
    for name in names or list(PICTURES):
        PICTURES[name]()
        print(f"made {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
