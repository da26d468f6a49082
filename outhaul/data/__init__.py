"""Moves the rows: catalog, contract, types, query, scan, writers. Sole home of Polars, Pandera, Arrow and ADBC."""
