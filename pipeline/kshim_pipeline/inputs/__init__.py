"""One module a source; all but the broker's log give the records table (`kshim_pipeline.records.RECORDS`)."""
