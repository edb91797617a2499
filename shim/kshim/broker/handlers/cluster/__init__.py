"""APIs about the cluster: versions, nodes, coordinators, log directories, quotas."""
