"""The loops of the three roles: who runs next."""
