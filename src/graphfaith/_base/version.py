"""The version of the library, in the one place that the build, the files and the command line read."""

__version__ = "0.1.0"
