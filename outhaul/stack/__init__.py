"""The embedded stack: the components that ``outhaul up`` runs as processes on one machine."""
