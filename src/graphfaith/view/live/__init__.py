"""The live view: a page on this machine alone that explains whatever node its reader picks."""
