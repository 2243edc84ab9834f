"""What every other room stands on: errors, checks, threads, progress, memory, stages, files, and the version."""
