"""The use cases. Every front (command line, API, panel, flows) calls these and nothing below them."""
