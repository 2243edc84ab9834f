"""The version of the library. The build, the saved files and the command line all read it from this module."""

__version__ = "1.0.0"
