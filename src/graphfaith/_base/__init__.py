"""Helpers that every other package uses: errors, checks, threads, progress, memory, stages, files and the version."""
