"""APIs of transactional producers."""
