"""What people use today, each as the short program that its manual suggests: ``python -m bench.peers.NAME``.

The arguments of all are the database's URL, the table, the format and the file.
"""
