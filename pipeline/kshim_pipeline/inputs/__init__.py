"""One module a source; all but the broker's log return the records table (`kshim_pipeline.records.RECORDS`)."""
