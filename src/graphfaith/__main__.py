"""``python -m graphfaith`` is ``graphfaith``."""

from .cli.application import main

if __name__ == "__main__":
    main()
