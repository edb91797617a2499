"""The coordinators, without I/O: a request and a time in, a `Step` out. The runtime they share."""
