"""``python -m graphfaith`` is ``graphfaith``."""

from .cli import main

if __name__ == "__main__":
    main()
