"""`python -m fleetwarden` is the `fleetwarden` command."""

from fleetwarden.cli import main

if __name__ == "__main__":
    main()
