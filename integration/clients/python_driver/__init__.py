"""What the drivers of Python clients share: the loop over commands, members and loads in the background."""
