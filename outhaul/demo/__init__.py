"""A year of real flights to try Outhaul on; each airline is a tenant."""
