"""A run on disk, made of the tables of a job in this process."""

from __future__ import annotations

from graphfaith.many.folder import RunFolder
from graphfaith.many.nodes import choose_nodes
from graphfaith.many.plan import Plan


def write_run(path, job, nodes, block=16, *, upto=None):
    """Write a run of some nodes; with ``upto``, only so many blocks of it."""
    plan = Plan.of(job, choose_nodes(nodes, job.num_nodes), block)
    with RunFolder.open(path, plan) as folder:
        for number in range(plan.num_blocks)[:upto]:
            folder.part(number).write(job.table(plan.ids(number)))
        if upto is None:
            folder.finish(len(plan.nodes), 0)
