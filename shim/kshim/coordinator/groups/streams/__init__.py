"""Groups of the streams protocol (KIP-1071): the coordinator knows their topology and assigns its tasks."""
