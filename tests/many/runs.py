"""A run on disk, made of the tables of a job."""

from __future__ import annotations

import json

import pyarrow.parquet as parquet


def write_run(folder, job, nodes, block=16, *, done=True, upto=None):
    """Write a run of some nodes as an engine does; ``upto`` blocks of it."""
    nodes = list(nodes)
    (folder / "explanations").mkdir(parents=True)
    plan = {"format": 1, "job": job.settings(), "digests": job.digests(), "nodes": {"count": len(nodes)}}
    (folder / "plan.json").write_text(json.dumps({"plan": plan, "digest": "abc"}))
    tables = [job.table(nodes[i : i + block]) for i in range(0, len(nodes), block)][:upto]
    for number, table in enumerate(tables):
        table = table.replace_schema_metadata({b"graphfaith.plan": b"abc"})
        parquet.write_table(table, folder / "explanations" / f"part-{number:08}.parquet", compression="zstd")
    if done:
        (folder / "done.json").write_text(json.dumps({"digest": "abc", "rows": len(nodes)}))
    return tables
