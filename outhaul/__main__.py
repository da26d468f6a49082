"""``python -m outhaul`` is the ``outhaul`` command."""

from outhaul.cli import main

if __name__ == "__main__":
    main()
