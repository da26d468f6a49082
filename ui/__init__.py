"""The admin panel: a front of ``outhaul.service``, like the command line."""
