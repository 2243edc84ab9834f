"""Explanations of millions of nodes: a job, engines that do it, and a folder of tables that loses nothing."""
