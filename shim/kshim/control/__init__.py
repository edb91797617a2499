"""Control over HTTP for tests in any language: `kshim serve --control`. Needs the extra `kshim[control]`."""
