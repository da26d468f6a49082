"""The HTTP API: a front of ``outhaul.service``, like the command line."""
