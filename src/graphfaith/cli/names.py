"""The names that help texts and shell completions show, as plain text.

What has these names loads torch, which takes seconds: too long for ``--help``, and for a shell that completes a word.
A test compares them with what there is. Methods that other distributions register are found when a command runs.
"""

from __future__ import annotations

DATASET = "ba-shapes"  # the data set of every command that is not told which one: it is generated, not downloaded
DATASETS = (
    *("ba-shapes", "tree-cycles", "tree-grid", "cora", "citeseer"),
    *("texas", "cornell", "wisconsin", "actor", "minesweeper"),
)
TYPED_DATASETS = ("hetero-ba-shapes", "cora-bibliography")
METHOD, NEIGHBORHOOD = "anchored-kec", "U(A,0.5)"
METHODS = (
    *("anchored-kec", "kec", "linear", "saliency", "ig-zero", "ig-random", "ig-full"),
    *("gnnexplainer", "gnnexplainer-soft", "pgexplainer", "subgraphx", "shapley"),
)
# What --neighborhood is completed to. There are more: any size may be given.
NEIGHBORHOODS = (
    *("U(A,0.2)", "U(A,0.5)", "B(A,0.2)", "B(A,0.5)", "R(A,5)"),
    *("U(X,0.2r)", "U(X,0.2r)xU(A,0.2)", "U(X,0.5r)xU(A,0.5)", "all"),
)
PEERS = (
    *("pyg-gnnexplainer", "pyg-pgexplainer", "pyg-graphmask", "pyg-attention", "pyg-dummy"),
    *("captum-saliency", "captum-ig", "captum-deconvolution", "captum-inputxgradient", "captum-shapley"),
)
JUDGED = (
    *("anchored-kec", "kec", "saliency", "ig-zero", "pyg-gnnexplainer", "pyg-pgexplainer", "pyg-graphmask"),
    *("captum-saliency", "captum-ig", "captum-inputxgradient"),
)
JUDGED_IN = ("U(A,0.5)", "B(A,0.5)")
MEASURES = (
    *("delta", "relative-delta", "infidelity", "infidelity-scaled", "fidelity+", "fidelity-", "label-fidelity+"),
    *("label-fidelity-", "characterization", "robust-fidelity+", "robust-fidelity-", "sufficiency", "necessity"),
    *("deletion", "insertion", "gef", "sparsity", "stability-noise", "stability-seed", "stability-training"),
    *("sensitivity-max", "roc-auc", "precision-at-k", "rank-agreement", "sign-agreement", "seconds"),
)
MODES, RETURN_TYPES = (
    ("multiclass_classification", "binary_classification", "regression"),
    ("raw", "probs", "log_probs"),
)
LEVELS = ("node", "edge", "graph")
EDGES = ("auto", "weight", "removal", "mask")
ENGINES = ("local", "ray")
