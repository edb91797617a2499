"""The assignors of the server: from what members want and have to what each is to own. Pure functions."""
