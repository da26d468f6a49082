"""What a Prefect server must hold for Outhaul: work pools and deployments."""
