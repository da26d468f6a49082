"""``python -m bench``."""

from bench.data_path import main

main()
