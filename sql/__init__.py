"""The SQL of Outhaul: ``migrations/NNNN_name.up.sql`` with its ``.down.sql``, and one file per query."""
