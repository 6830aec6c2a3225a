"""``python -m curate``: the command line."""

from curate.cli import main

if __name__ == "__main__":
    main()
